//! Where each agent keeps its sessions, its own lease, and its live owners. One module an agent.

pub mod backups;
pub mod claude;
pub mod qwen;
pub mod reasonix;
