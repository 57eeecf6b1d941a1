//! The codec of the service: prost's, with one addition. A directive whose bytes hold a field that the host does
//! not know is marked, so that it is refused by name instead of losing a guard that its sender relies on.

use std::any::Any;
use std::marker::PhantomData;

use bytes::Buf as _;
use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder};
use tonic_prost::{ProstCodec, ProstEncoder};

use super::proto::v1 as pb;
use super::{status, strict};
use crate::contract::code::Code;

/// Encodes `T`, decodes `U`; named by `build.rs` for every call of the service.
pub struct StrictCodec<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for StrictCodec<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> Codec for StrictCodec<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = ProstEncoder<T>;
    type Decoder = StrictDecoder<U>;

    fn encoder(&mut self) -> Self::Encoder {
        ProstCodec::<T, U>::raw_encoder(BufferSettings::default())
    }

    fn decoder(&mut self) -> Self::Decoder {
        StrictDecoder(PhantomData)
    }
}

/// Decodes `U` and looks for unknown fields where `U` carries a directive.
pub struct StrictDecoder<U>(PhantomData<U>);

impl<U: Message + Default + 'static> Decoder for StrictDecoder<U> {
    type Item = U;
    type Error = Status;

    fn decode(&mut self, buffer: &mut DecodeBuf<'_>) -> Result<Option<U>, Status> {
        let bytes = buffer.copy_to_bytes(buffer.remaining());
        let mut message = U::decode(bytes.clone()).map_err(|error| {
            status::refused(
                Code::InvalidArgument,
                format!("the message does not decode: {error}; make stubs from this host's protos"),
            )
        })?;
        let any: &mut dyn Any = &mut message;
        if let Some(frame) = any.downcast_mut::<pb::ConnectRequest>() {
            strict::check_frame(frame, &bytes);
        } else if let Some(submit) = any.downcast_mut::<pb::SubmitDirectiveRequest>() {
            strict::check_submit(submit, &bytes);
        }
        Ok(Some(message))
    }
}
