//! The only unsafe code of the engine: thin, audited wrappers over system calls.
