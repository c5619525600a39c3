//! See `vk_tests::fuzz::matcher`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vk_tests::fuzz::matcher(bytes));
