//! The program: parse, call, exit code.

fn main() {}
