#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| headcount_fuzz::run("verify_reports", bytes));
