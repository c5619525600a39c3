//! See `vk_tests::fuzz::zip`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vk_tests::fuzz::zip(bytes));
