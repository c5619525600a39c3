//! See `vk_tests::fuzz::layers`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vk_tests::fuzz::layers(bytes));
