//! Admission of Berth's own kinds and Spiderpool's.
//!
//! Nothing that keeps addresses unique depends on it: blocks are changed by compare-and-swap, the schema's own rules
//! refuse what can be told from one object, and who is accepted is decided after the fact by everybody who reads the
//! objects ([`verdicts`]). What admission adds is that a mistake is refused when it is made, in words that say how to
//! mend it. So it may be down at any time, and it is never asked about pods.
//!
//! | module | what it is |
//! |---|---|
//! | [`review`] | one request and what is known, to an answer; pure |
//! | [`defaulting`] | one request and what is known, to what the object lacks |
//! | [`certificates`] | its own authority and certificate, renewed with an overlap; pure but for the making of keys |
//! | [`keeper`] | keeps them in a Secret that all replicas share, publishes and serves them |
//! | [`registration`] | the webhook configurations, and the bundle in them |
//! | [`serve`] | HTTPS, with a certificate that is changed while it runs |

pub mod certificates;
pub mod defaulting;
pub mod keeper;
pub mod registration;
pub mod review;
pub mod serve;

pub use berth_dialects::verdicts;
