//! The resources of instance types: from the tables that ship in the binary, users' tables, real nodes, and the
//! cloud's API.
//!
//! [`Catalog`] returns one type at a time, resource by resource, and says where every figure comes from.

mod catalog;
mod entry;
mod export;
mod learned;
pub mod memory_model;
mod provenance;
mod quantity;
pub mod resource_slices;
mod table;

pub use catalog::{Catalog, LearnedView, MemorySize, TypeCapacity};
pub use entry::{Entry, check_capacity};
pub use export::export;
pub use learned::{
    Implausible, Learned, LearnedError, LearnedHost, LearnedHosts, LearnedType, LearnedTypes, NodeIdentity, NodeReport,
    ResourceQuantities, Sold,
};
pub use provenance::{Day, LearnedBy, Provenance, WithProvenance};
pub use quantity::{Quantity, QuantityError};
pub use table::{SHIPPED_VERSION, Table, TableError};
