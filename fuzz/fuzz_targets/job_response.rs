//! See `vk_tests::fuzz::job_response`.
#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| vk_tests::fuzz::job_response(bytes));
