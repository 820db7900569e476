//! Installation, and migration from an in-tree provider.

mod accounts;
mod migrate;
mod page;
mod read_only;
mod readme;
mod release;
mod shell;
mod unix_socket;
