//! What is printed reads back, errors have places, and arbitrary texts never make the parser panic.
