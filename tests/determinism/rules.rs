//! What deterministic runs do otherwise than others.
