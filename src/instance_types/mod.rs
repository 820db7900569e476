//! What machine types hold: the tables that ship in the binary, the tables users give, and what the cloud says live.
//!
//! [`Catalog`] answers for one type at a time, resource by resource, and says where every figure comes from.

mod catalog;
mod entry;
mod export;
pub mod memory;
mod quantity;
mod source;
mod table;

pub use catalog::{Catalog, Memory, TypeCapacity};
pub use entry::Entry;
pub use export::export;
pub use quantity::{Quantity, QuantityError};
pub use source::{Source, Sourced};
pub use table::{SHIPPED_VERSION, Table, TableError};
