//! The trace: masking, stamping, limiting.
