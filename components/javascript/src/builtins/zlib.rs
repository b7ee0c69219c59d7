//! `node:zlib`: streams that compress and decompress, step by step.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;

use brotli::enc::StandardAlloc;
use brotli::enc::encode::{
    BrotliEncoderOperation, BrotliEncoderParameter, BrotliEncoderStateStruct,
};
use rquickjs::prelude::{Func, Opt};
use rquickjs::{Ctx, Object, TypedArray};
use zlib_rs::{
    Deflate, DeflateConfig, DeflateFlush, Inflate, InflateError, InflateFlush, Method, Status,
    Strategy,
};
use zstd_safe::zstd_sys::ZSTD_EndDirective;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, InBuffer, OutBuffer, ResetDirective};

/// Numbers of `zlib.constants`.
const DEFLATE: u32 = 1;
const GZIP: u32 = 3;
const GUNZIP: u32 = 4;
const DEFLATERAW: u32 = 5;
const INFLATERAW: u32 = 6;
const UNZIP: u32 = 7;
const FINISH: u32 = 4;
const BROTLI_FINISH: u32 = 2;

/// What is wrong with the data, or with an option.
struct Failure {
    message: String,
    number: i32,
    code: String,
}

impl Failure {
    fn zlib(message: &str, number: i32) -> Failure {
        let code = match number {
            2 => "Z_NEED_DICT",
            -2 => "Z_STREAM_ERROR",
            -3 => "Z_DATA_ERROR",
            -4 => "Z_MEM_ERROR",
            _ => "Z_BUF_ERROR",
        };
        Failure { message: message.to_owned(), number, code: code.to_owned() }
    }

    fn end_of_file() -> Failure {
        Failure::zlib("unexpected end of file", -5)
    }

    fn initialization(message: &str) -> Failure {
        let code = "ERR_ZLIB_INITIALIZATION_FAILED".to_owned();
        Failure { message: message.to_owned(), number: 0, code }
    }

    fn zstd(code: usize) -> Failure {
        let number = 0usize.wrapping_sub(code) as i32;
        let name = ZSTD_ERRORS.iter().find(|(other, _)| *other == number);
        Failure {
            message: zstd_safe::get_error_name(code).to_owned(),
            number,
            code: format!("ZSTD_error_{}", name.map_or("GENERIC", |(_, name)| name)),
        }
    }
}

const ZSTD_ERRORS: [(i32, &str); 25] = [
    (10, "prefix_unknown"),
    (12, "version_unsupported"),
    (14, "frameParameter_unsupported"),
    (16, "frameParameter_windowTooLarge"),
    (20, "corruption_detected"),
    (22, "checksum_wrong"),
    (24, "literals_headerWrong"),
    (30, "dictionary_corrupted"),
    (32, "dictionary_wrong"),
    (34, "dictionaryCreation_failed"),
    (40, "parameter_unsupported"),
    (41, "parameter_combination_unsupported"),
    (42, "parameter_outOfBound"),
    (44, "tableLog_tooLarge"),
    (46, "maxSymbolValue_tooLarge"),
    (48, "maxSymbolValue_tooSmall"),
    (50, "stabilityCondition_notRespected"),
    (60, "stage_wrong"),
    (62, "init_missing"),
    (64, "memory_allocation"),
    (66, "workSpace_tooSmall"),
    (70, "dstSize_tooSmall"),
    (72, "srcSize_wrong"),
    (74, "dstBuffer_null"),
    (80, "noForwardProgress_destFull"),
];

/// How much of the input a step has read, and of the output it has written.
#[derive(Default)]
struct Step {
    read: usize,
    written: usize,
    failure: Option<Failure>,
}

enum Codec {
    Deflate(Deflater),
    Inflate(Inflater),
    BrotliEncoder(BrotliEncoder),
    BrotliDecoder(Box<BrotliDecoder>),
    ZstdEncoder(CCtx<'static>),
    ZstdDecoder(DCtx<'static>),
}

struct BrotliEncoder {
    inner: Box<BrotliEncoderStateStruct<StandardAlloc>>,
    /// Numbers of `zlib.constants` and their values.
    parameters: Vec<[u32; 2]>,
}

type BrotliDecoder = brotli::BrotliState<
    brotli::HeapAlloc<u8>,
    brotli::HeapAlloc<u32>,
    brotli::HeapAlloc<brotli::HuffmanCode>,
>;

impl Codec {
    fn step(&mut self, flush: u32, input: &[u8], output: &mut [u8]) -> Step {
        match self {
            Codec::Deflate(deflater) => deflater.step(flush, input, output),
            Codec::Inflate(inflater) => inflater.step(flush, input, output),
            Codec::BrotliEncoder(encoder) => {
                brotli_encode(&mut encoder.inner, flush, input, output)
            }
            Codec::BrotliDecoder(decoder) => brotli_decode(decoder, flush, input, output),
            Codec::ZstdEncoder(context) => zstd_encode(context, flush, input, output),
            Codec::ZstdDecoder(context) => zstd_decode(context, input, output),
        }
    }
}

struct Deflater {
    inner: Deflate,
    config: DeflateConfig,
    dictionary: Vec<u8>,
}

impl Deflater {
    fn new(config: DeflateConfig, dictionary: Vec<u8>) -> Result<Deflater, Failure> {
        let mut inner = Deflate::new_with_config(config);
        if !dictionary.is_empty() && inner.set_dictionary(&dictionary).is_err() {
            return Err(Failure::zlib("Failed to set dictionary", -2));
        }
        Ok(Deflater { inner, config, dictionary })
    }

    fn step(&mut self, flush: u32, input: &[u8], output: &mut [u8]) -> Step {
        let flush = match flush {
            1 => DeflateFlush::PartialFlush,
            2 => DeflateFlush::SyncFlush,
            3 => DeflateFlush::FullFlush,
            FINISH => DeflateFlush::Finish,
            5 => DeflateFlush::Block,
            _ => DeflateFlush::NoFlush,
        };
        let (read, written) = (self.inner.total_in(), self.inner.total_out());
        let status = self.inner.compress(input, output, flush);
        let mut step = Step {
            read: (self.inner.total_in() - read) as usize,
            written: (self.inner.total_out() - written) as usize,
            failure: None,
        };
        let has_room = step.written < output.len();
        step.failure = match status {
            Ok(Status::Ok | Status::BufError) if has_room && flush == DeflateFlush::Finish => {
                Some(Failure::end_of_file())
            }
            Ok(_) => None,
            Err(error) => Some(Failure::zlib(
                self.inner.error_message().unwrap_or("Zlib error"),
                error as i32,
            )),
        };
        step
    }
}

struct Inflater {
    inner: Inflate,
    mode: u32,
    window_bits: u8,
    dictionary: Vec<u8>,
    /// Whether the data ends with the first member: more is not another one.
    one_member: bool,
    /// Whether the data is that of gzip, which may have several members.
    is_gzip: Option<bool>,
    ended: bool,
}

impl Inflater {
    fn new(mode: u32, window_bits: u8, dictionary: Vec<u8>, one_member: bool) -> Inflater {
        let mut inner = Inflater::inner(mode, window_bits);
        if mode == INFLATERAW && !dictionary.is_empty() {
            // Data that was compressed with another dictionary is found to be invalid later.
            inner.set_dictionary(&dictionary).ok();
        }
        let is_gzip = (mode != UNZIP).then_some(mode == GUNZIP);
        Inflater { inner, mode, window_bits, dictionary, one_member, is_gzip, ended: false }
    }

    fn inner(mode: u32, window_bits: u8) -> Inflate {
        match mode {
            INFLATERAW => Inflate::new(false, window_bits),
            GUNZIP => Inflate::new(true, window_bits + 16),
            UNZIP => Inflate::new(true, window_bits + 32),
            _ => Inflate::new(true, window_bits),
        }
    }

    fn step(&mut self, flush: u32, input: &[u8], output: &mut [u8]) -> Step {
        let mut step = Step::default();
        if self.is_gzip.is_none()
            && let Some(first) = input.first()
        {
            self.is_gzip = Some(*first == 0x1f);
        }
        if !self.ended {
            self.decompress(flush, input, output, &mut step);
        }
        // Zeros are padding.
        while self.ended
            && step.failure.is_none()
            && !self.one_member
            && self.is_gzip == Some(true)
            && input.get(step.read).is_some_and(|byte| *byte != 0)
        {
            self.inner = Inflater::inner(GUNZIP, self.window_bits);
            self.ended = false;
            self.decompress(flush, input, output, &mut step);
        }
        step
    }

    fn decompress(&mut self, flush: u32, input: &[u8], output: &mut [u8], step: &mut Step) {
        let result = self.advance(flush, input, output, step);
        let result = match result {
            Err(InflateError::NeedDict { .. }) if !self.dictionary.is_empty() => {
                match self.inner.set_dictionary(&self.dictionary) {
                    Ok(_) => self.advance(flush, input, output, step),
                    Err(_) => {
                        step.failure = Some(Failure::zlib("Bad dictionary", 2));
                        return;
                    }
                }
            }
            result => result,
        };
        step.failure = match result {
            Ok(Status::StreamEnd) => {
                self.ended = true;
                None
            }
            Ok(_) if flush == FINISH && step.written < output.len() => Some(Failure::end_of_file()),
            Ok(_) => None,
            Err(InflateError::NeedDict { .. }) => Some(Failure::zlib("Missing dictionary", 2)),
            Err(error) => {
                let message = self.inner.error_message().unwrap_or("Zlib error");
                let number = match error {
                    InflateError::StreamError => -2,
                    InflateError::MemError => -4,
                    _ => -3,
                };
                Some(Failure::zlib(message, number))
            }
        };
    }

    fn advance(
        &mut self,
        flush: u32,
        input: &[u8],
        output: &mut [u8],
        step: &mut Step,
    ) -> Result<Status, InflateError> {
        let flush = match flush {
            1..=3 => InflateFlush::SyncFlush,
            FINISH => InflateFlush::Finish,
            5 => InflateFlush::Block,
            _ => InflateFlush::NoFlush,
        };
        let (read, written) = (self.inner.total_in(), self.inner.total_out());
        let result = self.inner.decompress(&input[step.read..], &mut output[step.written..], flush);
        step.read += (self.inner.total_in() - read) as usize;
        step.written += (self.inner.total_out() - written) as usize;
        result
    }
}

fn brotli_encode(
    encoder: &mut BrotliEncoderStateStruct<StandardAlloc>,
    flush: u32,
    input: &[u8],
    output: &mut [u8],
) -> Step {
    let operation = match flush {
        1 => BrotliEncoderOperation::BROTLI_OPERATION_FLUSH,
        BROTLI_FINISH => BrotliEncoderOperation::BROTLI_OPERATION_FINISH,
        3 => BrotliEncoderOperation::BROTLI_OPERATION_EMIT_METADATA,
        _ => BrotliEncoderOperation::BROTLI_OPERATION_PROCESS,
    };
    let (mut left, mut room) = (input.len(), output.len());
    let mut step = Step::default();
    let done = encoder.compress_stream(
        operation,
        &mut left,
        input,
        &mut step.read,
        &mut room,
        output,
        &mut step.written,
        &mut None,
        &mut |_, _, _, _| (),
    );
    if !done {
        let message = "Compression failed".to_owned();
        let code = "ERR_BROTLI_COMPRESSION_FAILED".to_owned();
        step.failure = Some(Failure { message, number: -2, code });
    }
    step
}

fn brotli_decode(decoder: &mut BrotliDecoder, flush: u32, input: &[u8], output: &mut [u8]) -> Step {
    let (mut left, mut room, mut total) = (input.len(), output.len(), 0);
    let mut step = Step::default();
    let result = brotli::BrotliDecompressStream(
        &mut left,
        &mut step.read,
        input,
        &mut room,
        &mut step.written,
        output,
        &mut total,
        decoder,
    );
    step.failure = match result {
        brotli::BrotliResult::ResultFailure => {
            let name = format!("{:?}", decoder.error_code);
            let name = name.strip_prefix("BROTLI_DECODER").unwrap_or(&name);
            Some(Failure {
                message: "Decompression failed".to_owned(),
                number: decoder.error_code as i32,
                code: format!("ERR_{name}"),
            })
        }
        brotli::BrotliResult::NeedsMoreInput if flush == BROTLI_FINISH => {
            Some(Failure::end_of_file())
        }
        _ => None,
    };
    step
}

fn zstd_encode(context: &mut CCtx<'static>, flush: u32, input: &[u8], output: &mut [u8]) -> Step {
    let directive = match flush {
        1 => ZSTD_EndDirective::ZSTD_e_flush,
        2 => ZSTD_EndDirective::ZSTD_e_end,
        _ => ZSTD_EndDirective::ZSTD_e_continue,
    };
    let mut from = InBuffer::around(input);
    let mut to = OutBuffer::around(output);
    let result = context.compress_stream2(&mut to, &mut from, directive);
    Step { read: from.pos(), written: to.pos(), failure: result.err().map(Failure::zstd) }
}

fn zstd_decode(context: &mut DCtx<'static>, input: &[u8], output: &mut [u8]) -> Step {
    let mut from = InBuffer::around(input);
    let mut to = OutBuffer::around(output);
    let result = context.decompress_stream(&mut to, &mut from);
    Step { read: from.pos(), written: to.pos(), failure: result.err().map(Failure::zstd) }
}

thread_local! {
    static CODECS: RefCell<HashMap<u32, Codec>> = RefCell::default();
    static NEXT: Cell<u32> = const { Cell::new(1) };
}

fn keep(codec: Codec) -> u32 {
    let handle = NEXT.get();
    NEXT.set(handle.wrapping_add(1));
    CODECS.with_borrow_mut(|codecs| codecs.insert(handle, codec));
    handle
}

pub(super) fn create<'js>(ctx: &Ctx<'js>) -> rquickjs::Result<Object<'js>> {
    let exports = Object::new(ctx.clone())?;
    exports.set("openZlib", Func::from(open_zlib))?;
    exports.set("openBrotli", Func::from(open_brotli))?;
    exports.set("openZstd", Func::from(open_zstd))?;
    exports.set("write", Func::from(write))?;
    exports.set("params", Func::from(params))?;
    exports.set("reset", Func::from(reset))?;
    exports.set("close", Func::from(close))?;
    exports.set("crc32", Func::from(crc32))?;
    Ok(exports)
}

/// The options of a stream of zlib.
struct ZlibOptions {
    mode: u32,
    level: i32,
    window_bits: u8,
    mem_level: i32,
    strategy: i32,
    dictionary: Vec<u8>,
    one_member: bool,
}

impl<'js> rquickjs::FromJs<'js> for ZlibOptions {
    fn from_js(_ctx: &Ctx<'js>, value: rquickjs::Value<'js>) -> rquickjs::Result<ZlibOptions> {
        let options = value.into_object().ok_or(rquickjs::Error::Unknown)?;
        Ok(ZlibOptions {
            mode: options.get("mode")?,
            level: options.get("level")?,
            window_bits: options.get("windowBits")?,
            mem_level: options.get("memLevel")?,
            strategy: options.get("strategy")?,
            dictionary: bytes(options.get("dictionary")?),
            one_member: options.get("oneMember")?,
        })
    }
}

/// Copies the bytes of an array.
fn bytes(array: Option<TypedArray<'_, u8>>) -> Vec<u8> {
    // SAFETY: Nothing else runs while the bytes are copied.
    array.and_then(|array| unsafe { array.as_bytes() }.map(<[u8]>::to_vec)).unwrap_or_default()
}

fn strategy(number: i32) -> Strategy {
    match number {
        1 => Strategy::Filtered,
        2 => Strategy::HuffmanOnly,
        3 => Strategy::Rle,
        4 => Strategy::Fixed,
        _ => Strategy::Default,
    }
}

/// Returns the handle of a stream, or the failure.
fn open_zlib<'js>(ctx: Ctx<'js>, options: ZlibOptions) -> rquickjs::Result<Object<'js>> {
    let ZlibOptions { mode, level, window_bits, mem_level, dictionary, one_member, .. } = options;
    let codec = match mode {
        DEFLATE | GZIP | DEFLATERAW => {
            let window = i32::from(window_bits);
            let config = DeflateConfig {
                level,
                method: Method::Deflated,
                window_bits: match mode {
                    GZIP => window + 16,
                    // Raw data with the smallest window cannot be decompressed.
                    DEFLATERAW => -window.max(9),
                    _ => window,
                },
                mem_level,
                strategy: strategy(options.strategy),
            };
            Deflater::new(config, dictionary).map(Codec::Deflate)
        }
        _ => Ok(Codec::Inflate(Inflater::new(mode, window_bits, dictionary, one_member))),
    };
    opened(ctx, codec)
}

fn opened(ctx: Ctx<'_>, codec: Result<Codec, Failure>) -> rquickjs::Result<Object<'_>> {
    let result = Object::new(ctx.clone())?;
    match codec {
        Ok(codec) => result.set("handle", keep(codec))?,
        Err(failure) => set_failure(&result, failure)?,
    }
    Ok(result)
}

fn set_failure(object: &Object<'_>, failure: Failure) -> rquickjs::Result<()> {
    object.set("message", failure.message)?;
    object.set("errno", failure.number)?;
    object.set("code", failure.code)
}

/// `parameters` are pairs of a number of `zlib.constants` and a value.
fn open_brotli<'js>(
    ctx: Ctx<'js>,
    encodes: bool,
    parameters: Vec<Vec<u32>>,
) -> rquickjs::Result<Object<'js>> {
    if !encodes {
        return opened(ctx, Ok(Codec::BrotliDecoder(Box::new(brotli_decoder()))));
    }
    let parameters = parameters.iter().map(|pair| <[u32; 2]>::try_from(&pair[..]));
    let parameters: Vec<_> =
        parameters.collect::<Result<_, _>>().map_err(|_| rquickjs::Error::Unknown)?;
    let encoder = brotli_encoder(&parameters).map(Codec::BrotliEncoder);
    opened(ctx, encoder.ok_or_else(|| Failure::initialization("Initialization failed")))
}

fn brotli_decoder() -> BrotliDecoder {
    brotli::BrotliState::new(
        brotli::HeapAlloc::<u8>::default(),
        brotli::HeapAlloc::<u32>::default(),
        brotli::HeapAlloc::<brotli::HuffmanCode>::default(),
    )
}

/// Returns an encoder with parameters; `None` if one is invalid.
fn brotli_encoder(parameters: &[[u32; 2]]) -> Option<BrotliEncoder> {
    let mut inner = Box::new(BrotliEncoderStateStruct::new(StandardAlloc::default()));
    for &[number, value] in parameters {
        let is_valid = match number {
            0 => value <= 2,
            1 => value <= 11,
            2 => value == 0 || (10..=30).contains(&value),
            3 => value == 0 || (16..=24).contains(&value),
            4 | 6 => value <= 1,
            _ => true,
        };
        let set = brotli_parameter(number).is_none_or(|name| inner.set_parameter(name, value));
        if !is_valid || !set {
            return None;
        }
    }
    Some(BrotliEncoder { inner, parameters: parameters.to_vec() })
}

/// Returns the parameter with this number of `zlib.constants`. The encoder has no `NPOSTFIX` and `NDIRECT`.
fn brotli_parameter(number: u32) -> Option<BrotliEncoderParameter> {
    Some(match number {
        0 => BrotliEncoderParameter::BROTLI_PARAM_MODE,
        1 => BrotliEncoderParameter::BROTLI_PARAM_QUALITY,
        2 => BrotliEncoderParameter::BROTLI_PARAM_LGWIN,
        3 => BrotliEncoderParameter::BROTLI_PARAM_LGBLOCK,
        4 => BrotliEncoderParameter::BROTLI_PARAM_DISABLE_LITERAL_CONTEXT_MODELING,
        5 => BrotliEncoderParameter::BROTLI_PARAM_SIZE_HINT,
        6 => BrotliEncoderParameter::BROTLI_PARAM_LARGE_WINDOW,
        _ => return None,
    })
}

fn open_zstd<'js>(
    ctx: Ctx<'js>,
    encodes: bool,
    parameters: Vec<Vec<i32>>,
    pledged: Option<f64>,
    dictionary: Opt<Option<TypedArray<'js, u8>>>,
) -> rquickjs::Result<Object<'js>> {
    let dictionary = bytes(dictionary.0.flatten());
    let codec = if encodes {
        zstd_encoder(&parameters, pledged, &dictionary).map(Codec::ZstdEncoder)
    } else {
        zstd_decoder(&parameters, &dictionary).map(Codec::ZstdDecoder)
    };
    opened(ctx, codec)
}

fn zstd_encoder(
    parameters: &[Vec<i32>],
    pledged: Option<f64>,
    dictionary: &[u8],
) -> Result<CCtx<'static>, Failure> {
    let mut context = CCtx::create();
    for pair in parameters {
        let [number, value] = pair[..] else { continue };
        let refused = || Failure::initialization("Setting parameter failed");
        let parameter = zstd_parameter(number, value).ok_or_else(refused)?;
        context.set_parameter(parameter).map_err(|_| refused())?;
    }
    if let Some(size) = pledged {
        let refused = |_| Failure::initialization("Could not set pledged src size");
        context.set_pledged_src_size(Some(size as u64)).map_err(refused)?;
    }
    if !dictionary.is_empty() {
        let refused = |_| Failure::initialization("Failed to load zstd dictionary");
        context.load_dictionary(dictionary).map_err(refused)?;
    }
    Ok(context)
}

fn zstd_parameter(number: i32, value: i32) -> Option<CParameter> {
    use zstd_safe::Strategy as S;
    let strategies = [
        S::ZSTD_fast,
        S::ZSTD_dfast,
        S::ZSTD_greedy,
        S::ZSTD_lazy,
        S::ZSTD_lazy2,
        S::ZSTD_btlazy2,
        S::ZSTD_btopt,
        S::ZSTD_btultra,
        S::ZSTD_btultra2,
    ];
    let natural = u32::try_from(value).ok();
    Some(match number {
        100 => CParameter::CompressionLevel(value),
        101 => CParameter::WindowLog(natural?),
        102 => CParameter::HashLog(natural?),
        103 => CParameter::ChainLog(natural?),
        104 => CParameter::SearchLog(natural?),
        105 => CParameter::MinMatch(natural?),
        106 => CParameter::TargetLength(natural?),
        107 => CParameter::Strategy(*strategies.get(usize::try_from(value - 1).ok()?)?),
        160 => CParameter::EnableLongDistanceMatching(value != 0),
        161 => CParameter::LdmHashLog(natural?),
        162 => CParameter::LdmMinMatch(natural?),
        163 => CParameter::LdmBucketSizeLog(natural?),
        164 => CParameter::LdmHashRateLog(natural?),
        200 => CParameter::ContentSizeFlag(value != 0),
        201 => CParameter::ChecksumFlag(value != 0),
        202 => CParameter::DictIdFlag(value != 0),
        // There is one thread.
        400 => CParameter::NbWorkers(0),
        401 => CParameter::JobSize(0),
        402 => CParameter::OverlapSizeLog(0),
        _ => return None,
    })
}

fn zstd_decoder(parameters: &[Vec<i32>], dictionary: &[u8]) -> Result<DCtx<'static>, Failure> {
    let mut context = DCtx::create();
    for pair in parameters {
        let [number, value] = pair[..] else { continue };
        let refused = || Failure::initialization("Setting parameter failed");
        let size = u32::try_from(value).ok().filter(|_| number == 100).ok_or_else(refused)?;
        context.set_parameter(DParameter::WindowLogMax(size)).map_err(|_| refused())?;
    }
    if !dictionary.is_empty() {
        let refused = |_| Failure::initialization("Failed to load zstd dictionary");
        context.load_dictionary(dictionary).map_err(refused)?;
    }
    Ok(context)
}

/// Takes a step: reads `input` from `offset` on, and writes at most `room` bytes. Returns `output`,
/// how many bytes it `read`, and the failure, if any.
fn write<'js>(
    ctx: Ctx<'js>,
    handle: u32,
    flush: u32,
    input: TypedArray<'js, u8>,
    offset: usize,
    room: usize,
) -> rquickjs::Result<Object<'js>> {
    let mut output = vec![0; room];
    // SAFETY: No JavaScript runs while the bytes are used.
    let whole = unsafe { input.as_bytes() }.unwrap_or_default();
    let step = CODECS.with_borrow_mut(|codecs| {
        let codec = codecs.get_mut(&handle)?;
        Some(codec.step(flush, whole.get(offset..).unwrap_or_default(), &mut output))
    });
    let step = step.unwrap_or_default();
    output.truncate(step.written);
    output.shrink_to_fit();
    let result = Object::new(ctx.clone())?;
    result.set("output", TypedArray::new(ctx, output)?)?;
    result.set("read", step.read)?;
    if let Some(failure) = step.failure {
        set_failure(&result, failure)?;
    }
    Ok(result)
}

/// Changes the level of a compressor. What it was given before is compressed already.
fn params(handle: u32, level: i32) -> bool {
    CODECS.with_borrow_mut(|codecs| match codecs.get_mut(&handle) {
        Some(Codec::Deflate(deflater)) => deflater.inner.set_level(level).is_ok(),
        _ => false,
    })
}

/// Makes a stream as it was when it was opened.
fn reset(handle: u32) {
    CODECS.with_borrow_mut(|codecs| match codecs.get_mut(&handle) {
        Some(Codec::Deflate(old)) => {
            if let Ok(new) = Deflater::new(old.config, std::mem::take(&mut old.dictionary)) {
                *old = new;
            }
        }
        Some(Codec::Inflate(old)) => {
            let dictionary = std::mem::take(&mut old.dictionary);
            *old = Inflater::new(old.mode, old.window_bits, dictionary, old.one_member);
        }
        Some(Codec::ZstdEncoder(context)) => {
            context.reset(ResetDirective::SessionOnly).ok();
        }
        Some(Codec::ZstdDecoder(context)) => {
            context.reset(ResetDirective::SessionOnly).ok();
        }
        Some(Codec::BrotliEncoder(old)) => {
            if let Some(new) = brotli_encoder(&old.parameters) {
                *old = new;
            }
        }
        Some(Codec::BrotliDecoder(decoder)) => **decoder = brotli_decoder(),
        None => {}
    });
}

fn close(handle: u32) {
    CODECS.with_borrow_mut(|codecs| codecs.remove(&handle));
}

fn crc32(data: TypedArray<'_, u8>, initial: u32) -> u32 {
    let mut hasher = crc32fast::Hasher::new_with_initial(initial);
    // SAFETY: No JavaScript runs while the bytes are used.
    hasher.update(unsafe { data.as_bytes() }.unwrap_or_default());
    hasher.finalize()
}
