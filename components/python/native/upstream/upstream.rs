//! This package is empty. It exists to declare a dependency.
