//! Logins that may reach one directory: what they can do there, and that nothing
//! else is read, written or even told, whatever the client asks.

#[path = "../common/mod.rs"]
mod common;

mod hostile;
mod login;
