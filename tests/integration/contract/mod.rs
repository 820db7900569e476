//! The real server against moto: wire formats that we did not write.

mod moto;
