//! The real server against moto, whose implementation of the wire formats is not ours.

mod moto;
mod shipped_table;
