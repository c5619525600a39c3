//! The header in front of every vsock packet. Virtio 1.2, section 5.10.6.

/// Length of the header in bytes: two 64-bit ids, two 32-bit ports, a 32-bit length, 16-bit type and operation, then
/// flags, buffer size and forwarded count of 32 bits each; little-endian, no padding.
pub(crate) const HEADER_LEN: usize = 44;

/// The host's address (`VMADDR_CID_HOST`; virtio 1.2, section 5.10.4).
pub(crate) const HOST_CID: u64 = 2;

/// "Any port" (`VMADDR_PORT_ANY` of `linux/vm_sockets.h`): never the port of a connection.
pub(crate) const PORT_ANY: u32 = u32::MAX;

/// Stream sockets, the only type served (`VIRTIO_VSOCK_TYPE_STREAM`).
pub(crate) const TYPE_STREAM: u16 = 1;

/// Flags of a shutdown packet (virtio 1.2, section 5.10.6.6).
pub(crate) mod shutdown {
    /// The sender will receive no more.
    pub(crate) const RECEIVE: u32 = 1;
    /// The sender will send no more.
    pub(crate) const SEND: u32 = 2;
    /// Both.
    pub(crate) const BOTH: u32 = RECEIVE | SEND;
}

/// What a packet asks for (`enum virtio_vsock_op`; virtio 1.2, section 5.10.6).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Op {
    Request,
    Response,
    Reset,
    Shutdown,
    Data,
    CreditUpdate,
    CreditRequest,
    /// None the standard knows.
    Unknown(u16),
}

impl From<u16> for Op {
    fn from(op: u16) -> Self {
        match op {
            1 => Self::Request,
            2 => Self::Response,
            3 => Self::Reset,
            4 => Self::Shutdown,
            5 => Self::Data,
            6 => Self::CreditUpdate,
            7 => Self::CreditRequest,
            other => Self::Unknown(other),
        }
    }
}

impl From<Op> for u16 {
    fn from(op: Op) -> Self {
        match op {
            Op::Request => 1,
            Op::Response => 2,
            Op::Reset => 3,
            Op::Shutdown => 4,
            Op::Data => 5,
            Op::CreditUpdate => 6,
            Op::CreditRequest => 7,
            Op::Unknown(other) => other,
        }
    }
}

/// A packet's header, in either direction. Any bytes make a header; whether it makes sense is for the muxer to say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) src_cid: u64,
    pub(crate) dst_cid: u64,
    pub(crate) src_port: u32,
    pub(crate) dst_port: u32,
    /// Bytes of payload behind the header.
    pub(crate) len: u32,
    /// [`TYPE_STREAM`], or something we do not serve.
    pub(crate) kind: u16,
    pub(crate) op: Op,
    pub(crate) flags: u32,
    /// Size of the sender's receive buffer.
    pub(crate) buf_alloc: u32,
    /// Bytes that have left the sender's receive buffer so far, modulo 2^32.
    pub(crate) fwd_cnt: u32,
}

impl Header {
    pub(crate) fn from_bytes(bytes: &[u8; HEADER_LEN]) -> Self {
        let mut rest = bytes.as_slice();
        Self {
            src_cid: u64::from_le_bytes(take(&mut rest)),
            dst_cid: u64::from_le_bytes(take(&mut rest)),
            src_port: u32::from_le_bytes(take(&mut rest)),
            dst_port: u32::from_le_bytes(take(&mut rest)),
            len: u32::from_le_bytes(take(&mut rest)),
            kind: u16::from_le_bytes(take(&mut rest)),
            op: u16::from_le_bytes(take(&mut rest)).into(),
            flags: u32::from_le_bytes(take(&mut rest)),
            buf_alloc: u32::from_le_bytes(take(&mut rest)),
            fwd_cnt: u32::from_le_bytes(take(&mut rest)),
        }
    }

    pub(crate) fn to_bytes(self) -> [u8; HEADER_LEN] {
        let mut bytes = [0; HEADER_LEN];
        let fields: [&[u8]; 10] = [
            &self.src_cid.to_le_bytes(),
            &self.dst_cid.to_le_bytes(),
            &self.src_port.to_le_bytes(),
            &self.dst_port.to_le_bytes(),
            &self.len.to_le_bytes(),
            &self.kind.to_le_bytes(),
            &u16::from(self.op).to_le_bytes(),
            &self.flags.to_le_bytes(),
            &self.buf_alloc.to_le_bytes(),
            &self.fwd_cnt.to_le_bytes(),
        ];
        for (to, from) in bytes.iter_mut().zip(fields.into_iter().flatten()) {
            *to = *from;
        }
        bytes
    }
}

/// The next `N` bytes, zeros once there are no more (a header has exactly the bytes its fields take).
fn take<const N: usize>(rest: &mut &[u8]) -> [u8; N] {
    rest.split_off(..N)
        .and_then(|field| field.try_into().ok())
        .unwrap_or([0; N])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn fields_stand_where_the_standard_puts_them() {
        let header = Header {
            src_cid: 0x0807_0605_0403_0201,
            dst_cid: HOST_CID,
            src_port: 0x0b0a_0908,
            dst_port: 1024,
            len: 7,
            kind: TYPE_STREAM,
            op: Op::Data,
            flags: 3,
            buf_alloc: 9,
            fwd_cnt: 0x0102_0304,
        };

        let bytes = header.to_bytes();

        assert_eq!(bytes[..8], [1, 2, 3, 4, 5, 6, 7, 8]);
        assert_eq!(bytes[8], 2);
        assert_eq!(bytes[16..20], [8, 9, 10, 11]);
        assert_eq!(bytes[20..22], [0, 4]);
        assert_eq!((bytes[24], bytes[28], bytes[30]), (7, 1, 5));
        assert_eq!((bytes[32], bytes[36]), (3, 9));
        assert_eq!(bytes[40..], [4, 3, 2, 1]);
    }

    proptest! {
        #[test]
        fn any_bytes_survive_parsing(bytes in proptest::array::uniform32(any::<u8>()), tail in proptest::array::uniform12(any::<u8>())) {
            let mut all = [0; HEADER_LEN];
            all[..32].copy_from_slice(&bytes);
            all[32..].copy_from_slice(&tail);
            prop_assert_eq!(Header::from_bytes(&all).to_bytes(), all);
        }
    }
}
