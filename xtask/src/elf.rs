//! Just enough of ELF to say whether a binary is statically linked and stripped.

use anyhow::{Context, Result, ensure};
use std::fs;
use std::path::Path;

const PROGRAM_INTERPRETER: u32 = 3;
const SECTION_SYMBOLS: u32 = 2;

/// What matters of a binary that is shipped.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Binary {
    /// It names no dynamic loader.
    pub(crate) is_static: bool,
    /// It carries no symbol table.
    pub(crate) is_stripped: bool,
    /// Its size in bytes.
    pub(crate) size: usize,
}

impl Binary {
    /// Reads a 64-bit little-endian ELF file.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = fs::read(path).with_context(|| format!("cannot read {}", path.display()))?;
        Self::parse(&bytes).with_context(|| format!("{} is no ELF file we can read", path.display()))
    }

    fn parse(bytes: &[u8]) -> Result<Self> {
        ensure!(bytes.starts_with(b"\x7fELF\x02\x01"), "not 64-bit little-endian ELF");
        let programs = table(bytes, 0x20, 0x36, 0x38, 0)?;
        let sections = table(bytes, 0x28, 0x3a, 0x3c, 4)?;
        Ok(Self {
            is_static: !programs.contains(&PROGRAM_INTERPRETER),
            is_stripped: !sections.contains(&SECTION_SYMBOLS),
            size: bytes.len(),
        })
    }
}

/// The types in a header table, whose offset, entry size and count stand at the places given.
fn table(bytes: &[u8], offset: usize, size: usize, count: usize, type_at: usize) -> Result<Vec<u32>> {
    let offset = usize::try_from(u64::from_le_bytes(field(bytes, offset)?))?;
    let size = usize::from(u16::from_le_bytes(field(bytes, size)?));
    let count = usize::from(u16::from_le_bytes(field(bytes, count)?));
    (0..count).map(|n| Ok(u32::from_le_bytes(field(bytes, offset + n * size + type_at)?))).collect()
}

fn field<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    let slice = bytes.get(at..at + N).context("the file is cut short")?;
    Ok(slice.try_into()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_a_dynamic_binary_with_symbols() {
        let binary = Binary::read(&std::env::current_exe().unwrap()).unwrap();
        assert!(!binary.is_static && !binary.is_stripped, "{binary:?}");
        assert!(Binary::parse(b"#!/bin/sh").is_err());
        assert!(Binary::parse(b"\x7fELF\x02\x01").is_err());
    }
}
