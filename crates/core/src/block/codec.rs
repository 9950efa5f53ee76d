//! The few primitives of Berth's binary format: fixed integers, variable-length integers, counted bytes.

/// Bytes that are not what was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("corrupt record: {0}")]
pub struct Corrupt(pub &'static str);

/// Appends values to a buffer.
#[derive(Debug, Default)]
pub struct Writer(pub Vec<u8>);

impl Writer {
    /// One byte.
    pub fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    /// Eight bytes, little end first.
    pub fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    /// Seven bytes: enough for two thousand years of microseconds.
    pub fn u56(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes()[..7]);
    }

    /// Seven bits to a byte, low first.
    pub fn varint(&mut self, mut value: u128) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    /// A length and that many bytes.
    pub fn bytes(&mut self, value: &[u8]) {
        self.varint(value.len() as u128);
        self.0.extend_from_slice(value);
    }
}

/// Takes values from a buffer.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a>(pub &'a [u8]);

impl<'a> Reader<'a> {
    /// The next `len` bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn take(&mut self, len: usize) -> Result<&'a [u8], Corrupt> {
        let (head, tail) = self.0.split_at_checked(len).ok_or(Corrupt("cut short"))?;
        self.0 = tail;
        Ok(head)
    }

    /// One byte.
    ///
    /// # Errors
    /// At the end.
    pub fn u8(&mut self) -> Result<u8, Corrupt> {
        self.take(1).map(|b| b[0])
    }

    /// Eight bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn u64(&mut self) -> Result<u64, Corrupt> {
        let mut raw = [0; 8];
        raw.copy_from_slice(self.take(8)?);
        Ok(u64::from_le_bytes(raw))
    }

    /// Seven bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn u56(&mut self) -> Result<u64, Corrupt> {
        let mut raw = [0; 8];
        raw[..7].copy_from_slice(self.take(7)?);
        Ok(u64::from_le_bytes(raw))
    }

    /// A variable-length integer.
    ///
    /// # Errors
    /// If it is cut short or longer than 128 bits.
    pub fn varint(&mut self) -> Result<u128, Corrupt> {
        // Nearly all are lengths of one byte.
        if let [byte @ 0..0x80, rest @ ..] = self.0 {
            self.0 = rest;
            return Ok(u128::from(*byte));
        }
        let mut value = 0u128;
        for shift in (0..).step_by(7) {
            let byte = self.u8()?;
            let bits = u128::from(byte & 0x7f);
            if shift > 126 || (shift == 126 && bits > 3) {
                return Err(Corrupt("integer too long"));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                break;
            }
        }
        Ok(value)
    }

    /// A length and that many bytes.
    ///
    /// # Errors
    /// If there are fewer.
    pub fn bytes(&mut self) -> Result<&'a [u8], Corrupt> {
        let len = usize::try_from(self.varint()?).map_err(|_| Corrupt("length out of range"))?;
        self.take(len)
    }

    /// Counted bytes that are text.
    ///
    /// # Errors
    /// If they are not UTF-8.
    pub fn text(&mut self) -> Result<&'a str, Corrupt> {
        std::str::from_utf8(self.bytes()?).map_err(|_| Corrupt("text is not UTF-8"))
    }
}
