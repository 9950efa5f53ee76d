//! Test support: an in-memory store that can be told to conflict and fail, and a medium that breaks on demand.

mod faulty;
mod memory;

pub use faulty::{Fault, FaultyMedium};
pub use memory::MemoryStore;
