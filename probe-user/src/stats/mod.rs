//! Arithmetic of rounds and means, in integers: what is printed with three digits is
//! rounded once, half away from zero, so that anybody can compute it again.

mod decimal;
mod loops;
mod sandwich;

pub(crate) use decimal::Thousandths;
pub(crate) use loops::Loops;
pub(crate) use sandwich::Sandwich;
