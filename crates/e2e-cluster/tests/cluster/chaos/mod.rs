//! What goes wrong is made to go wrong: processes die at any write, servers stand still, watches tell nothing.

mod controller;
mod crash;
mod kill;
mod old_picture;
mod outage;
mod storm;
