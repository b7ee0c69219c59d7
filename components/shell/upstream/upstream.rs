//! Nothing: this package names a dependency.
