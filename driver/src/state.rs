//! The state folder: images, run folders, and what a killed process left behind.
