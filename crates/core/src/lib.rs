//! The pure core of Berth.
pub mod addr;
