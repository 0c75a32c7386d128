//! Reverse-mode differentiation.
