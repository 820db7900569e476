//! What installing Headcount and moving to it rest on.

mod migrate;
mod read_only;
mod unix_socket;
