//! Places in a policy file.

#![forbid(unsafe_code)]

use std::path::Path;

use super::error::Place;

/// Byte offsets to lines and columns in nearly constant time: a file may hold all its entries on one line.
pub(super) struct Lines<'a> {
    file: &'a Path,
    text: &'a str,
    starts: Vec<usize>,
    /// Characters before each block of bytes.
    blocks: Vec<usize>,
}

/// Bytes in a block.
const BLOCK: usize = 1024;

impl<'a> Lines<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Self {
        let starts = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect();
        let mut blocks = vec![0];
        for block in text.as_bytes().chunks(BLOCK) {
            blocks.push(blocks[blocks.len() - 1] + characters(block));
        }
        Self { file, text, starts, blocks }
    }

    pub(super) fn place(&self, offset: usize) -> Place {
        let offset = offset.min(self.text.len());
        let line = self.starts.partition_point(|start| *start <= offset).max(1);
        let column = self.characters_before(offset) - self.characters_before(self.starts[line - 1]) + 1;
        Place { file: self.file.to_owned(), line: clamp(line), column: clamp(column) }
    }

    fn characters_before(&self, offset: usize) -> usize {
        let block = offset / BLOCK;
        self.blocks[block] + characters(&self.text.as_bytes()[block * BLOCK..offset])
    }
}

/// Counts the first bytes of characters.
fn characters(utf8: &[u8]) -> usize {
    utf8.iter().filter(|byte| (**byte & 0xC0) != 0x80).count()
}

/// Files are at most 1 MiB, so nothing is ever cut.
fn clamp(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
