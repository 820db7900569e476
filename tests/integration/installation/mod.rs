//! What installing Headcount and moving to it rest on.

mod accounts;
mod migrate;
mod page;
mod read_only;
mod release;
mod shell;
mod unix_socket;
