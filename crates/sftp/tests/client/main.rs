//! The client against real servers: OpenSSH's, over pipes and through ssh,
//! rclone's, and one that differs from it as servers may, or as no server may.

mod faults;
mod files;
mod later;
mod lister;
mod listings;
mod naming;
mod opening;
mod paths;
mod puts;
mod real;
mod servers;
mod small;
mod start;
mod threads;
