//! What instance types hold: the tables that ship in the binary, the tables users give, what nodes were seen to hold, and
//! what the cloud says live.
//!
//! [`Catalog`] answers for one type at a time, resource by resource, and says where every figure comes from.

mod catalog;
mod entry;
mod export;
mod learned;
pub mod memory;
mod quantity;
mod source;
mod table;

pub use catalog::{Catalog, Memory, TypeCapacity};
pub use entry::Entry;
pub use export::export;
pub use learned::{Figures, Learned, LearnedError, LearnedType, LearnedTypes, Origin, Sighting};
pub use quantity::{Quantity, QuantityError};
pub use source::{Day, Source, Sourced};
pub use table::{SHIPPED_VERSION, Table, TableError};
