//! What installing Headcount and moving to it rest on.

mod read_only;
mod unix_socket;
