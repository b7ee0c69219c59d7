// `_native`: the functions below the modules `_bz2`, `_lzma` and `_zstd` and below `hashlib.scrypt`,
// which are Python (`guest/_skillhost`), the types of `os.statvfs` and the like, and SQLite.
// componentize-py's CPython is compiled without these libraries, and without SQLite's full-text
// search; they are compiled here (`native.py`) and linked to it like any extension module.
//
// Everything that this file uses of CPython belongs to the stable ABI, so it declares that itself
// instead of needing CPython's headers, which no registry has for this target.

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "bzlib.h"
#include "lzma.h"
#include "sqlite3.h"
#include "zdict.h"
#include "zstd.h"

typedef ptrdiff_t Py_ssize_t;
typedef struct {
  Py_ssize_t references;
  void *type;
} PyObject;
typedef struct {
  void *buf;
  PyObject *obj;
  Py_ssize_t len, itemsize;
  int readonly, ndim;
  char *format;
  Py_ssize_t *shape, *strides, *suboffsets;
  void *internal;
} Py_buffer;
typedef PyObject *(*PyCFunction)(PyObject *, PyObject *);
typedef struct {
  const char *name;
  PyCFunction function;
  int flags;
  const char *doc;
} PyMethodDef;
typedef struct {
  struct {
    PyObject base;
    PyObject *(*init)(void);
    Py_ssize_t index;
    PyObject *copy;
  } head;
  const char *name, *doc;
  Py_ssize_t size;
  PyMethodDef *methods;
  void *slots, *traverse, *clear, *free;
} PyModuleDef;

extern PyObject *PyExc_ValueError;
extern PyObject _Py_NoneStruct;
int PyArg_ParseTuple(PyObject *, const char *, ...);
PyObject *Py_BuildValue(const char *, ...);
void PyBuffer_Release(Py_buffer *);
PyObject *PyBytes_FromStringAndSize(const char *, Py_ssize_t);
char *PyBytes_AsString(PyObject *);
int _PyBytes_Resize(PyObject **, Py_ssize_t);
PyObject *PyCapsule_New(void *, const char *, void (*)(PyObject *));
void *PyCapsule_GetPointer(PyObject *, const char *);
PyObject *PyErr_NoMemory(void);
void PyErr_SetString(PyObject *, const char *);
void _Py_DecRef(PyObject *);
PyObject *PyModule_Create2(PyModuleDef *, int);
int PyModule_AddIntConstant(PyObject *, const char *, long);
int PyModule_AddStringConstant(PyObject *, const char *, const char *);
typedef struct {
  const char *name, *doc;
} PyStructSequence_Field;
typedef struct {
  const char *name, *doc;
  PyStructSequence_Field *fields;
  int n_in_sequence;
} PyStructSequence_Desc;
PyObject *PyStructSequence_NewType(PyStructSequence_Desc *);

enum { METH_VARARGS = 1, API_VERSION = 3 };
// The reference count of an immortal object on 32-bit machines.
enum { IMMORTAL = 5 << 28 };

enum kind { BZ_COMPRESS, BZ_DECOMPRESS, LZMA_ENCODE, LZMA_DECODE, ZSTD_COMPRESS, ZSTD_DECOMPRESS };

// What `run` is asked to do, in the numbers of the Python code.
enum action { CONTINUE, FLUSH, FINISH };

// The state in which `run` leaves a stream.
enum state { WANTS_INPUT, ENDED, OUTPUT_FULL, FAILED };

struct stream {
  enum kind kind;
  // The check of a decoder's stream, once known.
  int check;
  union {
    bz_stream bz;
    lzma_stream lzma;
    struct {
      ZSTD_CCtx *compressor;
      ZSTD_CDict *compressors_dictionary;
    };
    struct {
      ZSTD_DCtx *decompressor;
      ZSTD_DDict *decompressors_dictionary;
    };
  };
};

static const char *const NAME = "stream";

static void drop(PyObject *capsule) {
  struct stream *stream = PyCapsule_GetPointer(capsule, NAME);
  switch (stream->kind) {
  case BZ_COMPRESS:
    BZ2_bzCompressEnd(&stream->bz);
    break;
  case BZ_DECOMPRESS:
    BZ2_bzDecompressEnd(&stream->bz);
    break;
  case LZMA_ENCODE:
  case LZMA_DECODE:
    lzma_end(&stream->lzma);
    break;
  case ZSTD_COMPRESS:
    ZSTD_freeCCtx(stream->compressor);
    ZSTD_freeCDict(stream->compressors_dictionary);
    break;
  case ZSTD_DECOMPRESS:
    ZSTD_freeDCtx(stream->decompressor);
    ZSTD_freeDDict(stream->decompressors_dictionary);
    break;
  }
  free(stream);
}

static PyObject *wrapped(struct stream *stream) {
  PyObject *capsule = PyCapsule_New(stream, NAME, drop);
  if (capsule == NULL)
    free(stream);
  return capsule;
}

static struct stream *allocate(enum kind kind) {
  struct stream *stream = calloc(1, sizeof *stream);
  if (stream == NULL) {
    PyErr_NoMemory();
    return NULL;
  }
  stream->kind = kind;
  stream->check = LZMA_CHECK_ID_MAX + 1;
  return stream;
}

void bz_internal_error(int code) {
  (void)code;
  __builtin_trap();
}

static PyObject *bz2_stream(PyObject *self, PyObject *arguments) {
  int level;
  if (!PyArg_ParseTuple(arguments, "i", &level))
    return NULL;
  struct stream *stream = allocate(level ? BZ_COMPRESS : BZ_DECOMPRESS);
  if (stream == NULL)
    return NULL;
  int code = level ? BZ2_bzCompressInit(&stream->bz, level, 0, 0) : BZ2_bzDecompressInit(&stream->bz, 0, 0);
  if (code != BZ_OK) {
    free(stream);
    return PyErr_NoMemory();
  }
  return wrapped(stream);
}

// A filter, as the Python code packs it: its number, and options, of which -1 means the default.
struct filter {
  int64_t id, preset, dict_size, lc, lp, pb, mode, nice_len, mf, depth, distance, start;
};

union options {
  lzma_options_lzma lzma;
  lzma_options_delta delta;
  lzma_options_bcj bcj;
};

// Returns 0 if the preset does not exist.
static int read_filter(const struct filter *given, lzma_filter *filter, union options *options) {
  memset(options, 0, sizeof *options);
  filter->id = (lzma_vli)given->id;
  filter->options = options;
  if (filter->id == LZMA_FILTER_LZMA1 || filter->id == LZMA_FILTER_LZMA2) {
    uint32_t preset = given->preset < 0 ? LZMA_PRESET_DEFAULT : (uint32_t)given->preset;
    if (lzma_lzma_preset(&options->lzma, preset))
      return 0;
#define SET(name, type) \
  if (given->name >= 0) \
    options->lzma.name = (type)given->name;
    SET(dict_size, uint32_t)
    SET(lc, uint32_t)
    SET(lp, uint32_t)
    SET(pb, uint32_t)
    SET(mode, lzma_mode)
    SET(nice_len, uint32_t)
    SET(mf, lzma_match_finder)
    SET(depth, uint32_t)
#undef SET
  } else if (filter->id == LZMA_FILTER_DELTA) {
    options->delta.type = LZMA_DELTA_TYPE_BYTE;
    options->delta.dist = given->distance < 0 ? 1 : (uint32_t)given->distance;
  } else {
    options->bcj.start_offset = given->start < 0 ? 0 : (uint32_t)given->start;
  }
  return 1;
}

// Reads at most LZMA_FILTERS_MAX filters; the Python code checks their number.
static int read_filters(const Py_buffer *given, lzma_filter *filters, union options *options) {
  size_t count = (size_t)given->len / sizeof(struct filter);
  for (size_t at = 0; at < count && at < LZMA_FILTERS_MAX; at++) {
    struct filter filter;
    memcpy(&filter, (const char *)given->buf + at * sizeof filter, sizeof filter);
    if (!read_filter(&filter, &filters[at], &options[at]))
      return 0;
  }
  filters[count < LZMA_FILTERS_MAX ? count : LZMA_FILTERS_MAX].id = LZMA_VLI_UNKNOWN;
  return 1;
}

// The formats of the Python module.
enum { FORMAT_AUTO, FORMAT_XZ, FORMAT_ALONE, FORMAT_RAW };

static PyObject *lzma_failed(int code) {
  return code == LZMA_MEM_ERROR ? PyErr_NoMemory() : Py_BuildValue("i", code);
}

// Returns a stream, or the number of liblzma's error.
static PyObject *lzma_encoder(PyObject *self, PyObject *arguments) {
  int format, check;
  unsigned int preset;
  Py_buffer given;
  lzma_filter filters[LZMA_FILTERS_MAX + 1];
  union options options[LZMA_FILTERS_MAX];
  if (!PyArg_ParseTuple(arguments, "iiIy*", &format, &check, &preset, &given))
    return NULL;
  int has_filters = given.len > 0, known = read_filters(&given, filters, options);
  PyBuffer_Release(&given);
  if (!known)
    return Py_BuildValue("i", LZMA_OPTIONS_ERROR);
  struct stream *stream = allocate(LZMA_ENCODE);
  if (stream == NULL)
    return NULL;
  lzma_ret code;
  if (format == FORMAT_XZ) {
    code = has_filters ? lzma_stream_encoder(&stream->lzma, filters, (lzma_check)check)
                       : lzma_easy_encoder(&stream->lzma, preset, (lzma_check)check);
  } else if (format == FORMAT_RAW) {
    code = lzma_raw_encoder(&stream->lzma, filters);
  } else if (has_filters) {
    code = lzma_alone_encoder(&stream->lzma, &options[0].lzma);
  } else {
    code = lzma_lzma_preset(&options[0].lzma, preset) ? LZMA_OPTIONS_ERROR
                                                      : lzma_alone_encoder(&stream->lzma, &options[0].lzma);
  }
  if (code == LZMA_OK)
    return wrapped(stream);
  lzma_end(&stream->lzma);
  free(stream);
  return lzma_failed(code);
}

static PyObject *lzma_decoder(PyObject *self, PyObject *arguments) {
  int format;
  unsigned long long memory;
  Py_buffer given;
  lzma_filter filters[LZMA_FILTERS_MAX + 1];
  union options options[LZMA_FILTERS_MAX];
  const uint32_t flags = LZMA_TELL_ANY_CHECK | LZMA_TELL_NO_CHECK;
  if (!PyArg_ParseTuple(arguments, "iKy*", &format, &memory, &given))
    return NULL;
  int known = read_filters(&given, filters, options);
  PyBuffer_Release(&given);
  if (!known)
    return Py_BuildValue("i", LZMA_OPTIONS_ERROR);
  struct stream *stream = allocate(LZMA_DECODE);
  if (stream == NULL)
    return NULL;
  lzma_ret code;
  switch (format) {
  case FORMAT_XZ:
    code = lzma_stream_decoder(&stream->lzma, memory, flags);
    break;
  case FORMAT_ALONE:
    code = lzma_alone_decoder(&stream->lzma, memory);
    stream->check = LZMA_CHECK_NONE;
    break;
  case FORMAT_RAW:
    code = lzma_raw_decoder(&stream->lzma, filters);
    stream->check = LZMA_CHECK_NONE;
    break;
  default:
    code = lzma_auto_decoder(&stream->lzma, memory, flags);
  }
  if (code == LZMA_OK)
    return wrapped(stream);
  lzma_end(&stream->lzma);
  free(stream);
  return lzma_failed(code);
}

static PyObject *lzma_encode_properties(PyObject *self, PyObject *arguments) {
  Py_buffer given;
  lzma_filter filters[LZMA_FILTERS_MAX + 1];
  union options options[LZMA_FILTERS_MAX];
  if (!PyArg_ParseTuple(arguments, "y*", &given))
    return NULL;
  int known = read_filters(&given, filters, options);
  PyBuffer_Release(&given);
  uint32_t size;
  lzma_ret code = known ? lzma_properties_size(&size, &filters[0]) : LZMA_OPTIONS_ERROR;
  if (code != LZMA_OK)
    return lzma_failed(code);
  PyObject *bytes = PyBytes_FromStringAndSize(NULL, size);
  if (bytes == NULL)
    return NULL;
  code = lzma_properties_encode(&filters[0], (uint8_t *)PyBytes_AsString(bytes));
  if (code == LZMA_OK)
    return bytes;
  _Py_DecRef(bytes);
  return lzma_failed(code);
}

// Returns the options in the order of the Python code, or the number of liblzma's error.
static PyObject *lzma_decode_properties(PyObject *self, PyObject *arguments) {
  lzma_filter filter;
  unsigned long long id;
  Py_buffer given;
  if (!PyArg_ParseTuple(arguments, "Ky*", &id, &given))
    return NULL;
  filter.id = id;
  lzma_ret code = lzma_properties_decode(&filter, NULL, given.buf, (size_t)given.len);
  PyBuffer_Release(&given);
  if (code != LZMA_OK)
    return lzma_failed(code);
  PyObject *found;
  if (id == LZMA_FILTER_LZMA1 || id == LZMA_FILTER_LZMA2) {
    const lzma_options_lzma *options = filter.options;
    found = Py_BuildValue("(IIII)", options->dict_size, options->lc, options->lp, options->pb);
  } else if (id == LZMA_FILTER_DELTA) {
    found = Py_BuildValue("(I)", ((const lzma_options_delta *)filter.options)->dist);
  } else {
    // Without options if the offset is the default.
    const lzma_options_bcj *options = filter.options;
    found = options == NULL ? Py_BuildValue("()") : Py_BuildValue("(I)", options->start_offset);
  }
  free(filter.options);
  return found;
}

static PyObject *lzma_check_supported(PyObject *self, PyObject *arguments) {
  int check;
  if (!PyArg_ParseTuple(arguments, "i", &check))
    return NULL;
  return Py_BuildValue("i", (int)lzma_check_is_supported((lzma_check)check));
}

static PyObject *lzma_stream_check(PyObject *self, PyObject *arguments) {
  PyObject *capsule;
  if (!PyArg_ParseTuple(arguments, "O", &capsule))
    return NULL;
  struct stream *stream = PyCapsule_GetPointer(capsule, NAME);
  return stream == NULL ? NULL : Py_BuildValue("i", stream->check);
}

static PyObject *zstd_stream(PyObject *self, PyObject *arguments) {
  int compresses;
  if (!PyArg_ParseTuple(arguments, "i", &compresses))
    return NULL;
  struct stream *stream = allocate(compresses ? ZSTD_COMPRESS : ZSTD_DECOMPRESS);
  if (stream == NULL)
    return NULL;
  void *context;
  if (compresses)
    context = stream->compressor = ZSTD_createCCtx();
  else
    context = stream->decompressor = ZSTD_createDCtx();
  if (context == NULL) {
    free(stream);
    return PyErr_NoMemory();
  }
  return wrapped(stream);
}

// None, or the text of the error.
static PyObject *zstd_result(size_t code) {
  if (ZSTD_isError(code))
    return Py_BuildValue("s", ZSTD_getErrorName(code));
  return Py_BuildValue("");
}

static PyObject *zstd_set(PyObject *self, PyObject *arguments) {
  PyObject *capsule;
  int parameter, value;
  if (!PyArg_ParseTuple(arguments, "Oii", &capsule, &parameter, &value))
    return NULL;
  struct stream *stream = PyCapsule_GetPointer(capsule, NAME);
  if (stream == NULL)
    return NULL;
  return zstd_result(stream->kind == ZSTD_COMPRESS
                         ? ZSTD_CCtx_setParameter(stream->compressor, (ZSTD_cParameter)parameter, value)
                         : ZSTD_DCtx_setParameter(stream->decompressor, (ZSTD_dParameter)parameter, value));
}

// Sets the size of the next frame's content. 2^64 - 1 means that it is not known.
static PyObject *zstd_pledge(PyObject *self, PyObject *arguments) {
  PyObject *capsule;
  unsigned long long size;
  if (!PyArg_ParseTuple(arguments, "OK", &capsule, &size))
    return NULL;
  struct stream *stream = PyCapsule_GetPointer(capsule, NAME);
  return stream == NULL ? NULL : zstd_result(ZSTD_CCtx_setPledgedSrcSize(stream->compressor, size));
}

static PyObject *zstd_reset(PyObject *self, PyObject *arguments) {
  PyObject *capsule;
  if (!PyArg_ParseTuple(arguments, "O", &capsule))
    return NULL;
  struct stream *stream = PyCapsule_GetPointer(capsule, NAME);
  return stream == NULL ? NULL : zstd_result(ZSTD_CCtx_reset(stream->compressor, ZSTD_reset_session_only));
}

// How a dictionary is used, in the numbers of the Python code. A prefix is used for the next frame,
// and the caller keeps its bytes.
enum { DIGESTED, UNDIGESTED, PREFIX };

static size_t compress_with(struct stream *stream, const void *content, size_t length, int how, int level) {
  if (how == PREFIX)
    return ZSTD_CCtx_refPrefix(stream->compressor, content, length);
  if (how == UNDIGESTED)
    return ZSTD_CCtx_loadDictionary(stream->compressor, content, length);
  ZSTD_freeCDict(stream->compressors_dictionary);
  stream->compressors_dictionary = ZSTD_createCDict(content, length, level);
  return ZSTD_CCtx_refCDict(stream->compressor, stream->compressors_dictionary);
}

static size_t decompress_with(struct stream *stream, const void *content, size_t length, int how) {
  if (how == PREFIX)
    return ZSTD_DCtx_refPrefix(stream->decompressor, content, length);
  if (how == UNDIGESTED)
    return ZSTD_DCtx_loadDictionary(stream->decompressor, content, length);
  ZSTD_freeDDict(stream->decompressors_dictionary);
  stream->decompressors_dictionary = ZSTD_createDDict(content, length);
  return ZSTD_DCtx_refDDict(stream->decompressor, stream->decompressors_dictionary);
}

// Loads a dictionary. Returns None, or the text of the error.
static PyObject *zstd_dictionary(PyObject *self, PyObject *arguments) {
  PyObject *capsule;
  Py_buffer given;
  int how, level;
  if (!PyArg_ParseTuple(arguments, "Oy*ii", &capsule, &given, &how, &level))
    return NULL;
  struct stream *stream = PyCapsule_GetPointer(capsule, NAME);
  PyObject *result = NULL;
  if (stream != NULL && stream->kind == ZSTD_COMPRESS) {
    size_t code = compress_with(stream, given.buf, (size_t)given.len, how, level);
    int failed = how == DIGESTED && stream->compressors_dictionary == NULL;
    result = failed ? Py_BuildValue("s", "it is not a dictionary") : zstd_result(code);
  } else if (stream != NULL) {
    size_t code = decompress_with(stream, given.buf, (size_t)given.len, how);
    int failed = how == DIGESTED && stream->decompressors_dictionary == NULL;
    result = failed ? Py_BuildValue("s", "it is not a dictionary") : zstd_result(code);
  }
  PyBuffer_Release(&given);
  return result;
}

static PyObject *zstd_dictionary_id(PyObject *self, PyObject *arguments) {
  Py_buffer given;
  if (!PyArg_ParseTuple(arguments, "y*", &given))
    return NULL;
  unsigned int id = ZSTD_getDictID_fromDict(given.buf, (size_t)given.len);
  PyBuffer_Release(&given);
  return Py_BuildValue("I", id);
}

// Trains a dictionary, or finalizes the given one unless that is None: (basis, samples, their sizes, size, level).
static PyObject *zstd_train(PyObject *self, PyObject *arguments) {
  Py_buffer basis, samples, sizes;
  Py_ssize_t size;
  int level;
  if (!PyArg_ParseTuple(arguments, "z*y*y*ni", &basis, &samples, &sizes, &size, &level))
    return NULL;
  PyObject *bytes = PyBytes_FromStringAndSize(NULL, size);
  size_t made = 0;
  if (bytes != NULL) {
    // The sizes have the width of `size_t`.
    const size_t *each = sizes.buf;
    unsigned int count = (unsigned int)((size_t)sizes.len / sizeof *each);
    ZDICT_params_t parameters = {.compressionLevel = level};
    char *into = PyBytes_AsString(bytes);
    made = basis.buf == NULL ? ZDICT_trainFromBuffer(into, (size_t)size, samples.buf, each, count)
                          : ZDICT_finalizeDictionary(into, (size_t)size, basis.buf, (size_t)basis.len, samples.buf,
                                                     each, count, parameters);
  }
  PyBuffer_Release(&basis);
  PyBuffer_Release(&samples);
  PyBuffer_Release(&sizes);
  if (bytes == NULL)
    return NULL;
  if (ZDICT_isError(made)) {
    _Py_DecRef(bytes);
    return Py_BuildValue("s", ZDICT_getErrorName(made));
  }
  return _PyBytes_Resize(&bytes, (Py_ssize_t)made) ? NULL : bytes;
}

// The bounds of a parameter, or the text of the error.
static PyObject *zstd_bounds(PyObject *self, PyObject *arguments) {
  int parameter, compresses;
  if (!PyArg_ParseTuple(arguments, "ii", &parameter, &compresses))
    return NULL;
  ZSTD_bounds bounds = compresses ? ZSTD_cParam_getBounds((ZSTD_cParameter)parameter)
                                  : ZSTD_dParam_getBounds((ZSTD_dParameter)parameter);
  if (ZSTD_isError(bounds.error))
    return zstd_result(bounds.error);
  return Py_BuildValue("(ii)", bounds.lowerBound, bounds.upperBound);
}

// The compressed size of a frame, its content's size (-1: not known, -2: an error), and the number
// of its dictionary; the first is the text of the error.
static PyObject *zstd_frame(PyObject *self, PyObject *arguments) {
  Py_buffer given;
  if (!PyArg_ParseTuple(arguments, "y*", &given))
    return NULL;
  size_t length = (size_t)given.len, size = ZSTD_findFrameCompressedSize(given.buf, length);
  unsigned long long content = ZSTD_getFrameContentSize(given.buf, length);
  unsigned int id = ZSTD_getDictID_fromFrame(given.buf, length);
  PyBuffer_Release(&given);
  // Both marks are among the largest numbers.
  long long shown = content == ZSTD_CONTENTSIZE_UNKNOWN ? -1 : content == ZSTD_CONTENTSIZE_ERROR ? -2 : (long long)content;
  if (ZSTD_isError(size))
    return Py_BuildValue("(sLI)", ZSTD_getErrorName(size), shown, id);
  return Py_BuildValue("(nLI)", (Py_ssize_t)size, shown, id);
}

// The input and the output of a call.
struct io {
  const char *in;
  size_t in_left;
  char *out;
  size_t out_left;
};

// Calls the codec once. Sets `code` to its error, of which zstd's have texts.
static enum state step(struct stream *stream, struct io *io, enum action action, int *code, const char **text) {
  switch (stream->kind) {
  case BZ_COMPRESS: {
    if (action == CONTINUE && io->in_left == 0)
      return WANTS_INPUT;
    bz_stream *bz = &stream->bz;
    unsigned int in = io->in_left > INT32_MAX ? INT32_MAX : (unsigned int)io->in_left, out = (unsigned int)io->out_left;
    bz->next_in = (char *)io->in, bz->avail_in = in, bz->next_out = io->out, bz->avail_out = out;
    *code = BZ2_bzCompress(bz, action == FINISH ? BZ_FINISH : BZ_RUN);
    io->in = bz->next_in, io->in_left -= in - bz->avail_in, io->out = bz->next_out, io->out_left = bz->avail_out;
    return *code == BZ_STREAM_END ? ENDED : *code < 0 ? FAILED : io->out_left == 0 ? OUTPUT_FULL : WANTS_INPUT;
  }
  case BZ_DECOMPRESS: {
    bz_stream *bz = &stream->bz;
    unsigned int in = io->in_left > INT32_MAX ? INT32_MAX : (unsigned int)io->in_left, out = (unsigned int)io->out_left;
    bz->next_in = (char *)io->in, bz->avail_in = in, bz->next_out = io->out, bz->avail_out = out;
    *code = BZ2_bzDecompress(bz);
    io->in = bz->next_in, io->in_left -= in - bz->avail_in, io->out = bz->next_out, io->out_left = bz->avail_out;
    return *code == BZ_STREAM_END ? ENDED : *code < 0 ? FAILED : io->out_left == 0 ? OUTPUT_FULL : WANTS_INPUT;
  }
  case LZMA_ENCODE:
  case LZMA_DECODE: {
    lzma_stream *lzma = &stream->lzma;
    lzma->next_in = (const uint8_t *)io->in, lzma->avail_in = io->in_left;
    lzma->next_out = (uint8_t *)io->out, lzma->avail_out = io->out_left;
    *code = lzma_code(lzma, action == FINISH ? LZMA_FINISH : LZMA_RUN);
    io->in = (const char *)lzma->next_in, io->in_left = lzma->avail_in;
    io->out = (char *)lzma->next_out, io->out_left = lzma->avail_out;
    if (*code == LZMA_GET_CHECK || *code == LZMA_NO_CHECK)
      stream->check = (int)lzma_get_check(lzma);
    if (*code == LZMA_STREAM_END)
      return ENDED;
    // Not an error without input.
    int starved = *code == LZMA_BUF_ERROR && io->in_left == 0 && io->out_left > 0;
    if (*code != LZMA_OK && *code != LZMA_GET_CHECK && *code != LZMA_NO_CHECK && !starved)
      return FAILED;
    return io->out_left == 0 ? OUTPUT_FULL : WANTS_INPUT;
  }
  default: {
    ZSTD_inBuffer in = {io->in, io->in_left, 0};
    ZSTD_outBuffer out = {io->out, io->out_left, 0};
    static const ZSTD_EndDirective DIRECTIVES[] = {ZSTD_e_continue, ZSTD_e_flush, ZSTD_e_end};
    size_t left = stream->kind == ZSTD_COMPRESS
                      ? ZSTD_compressStream2(stream->compressor, &out, &in, DIRECTIVES[action])
                      : ZSTD_decompressStream(stream->decompressor, &out, &in);
    io->in += in.pos, io->in_left -= in.pos, io->out += out.pos, io->out_left -= out.pos;
    if (ZSTD_isError(left)) {
      *code = (int)ZSTD_getErrorCode(left);
      *text = ZSTD_getErrorName(left);
      return FAILED;
    }
    if (left == 0 && (stream->kind == ZSTD_DECOMPRESS || action != CONTINUE))
      return ENDED;
    return io->out_left == 0 ? OUTPUT_FULL : WANTS_INPUT;
  }
  }
}

// Whether a stream that has room for output has done what it was asked for.
static int is_done(const struct stream *stream, const struct io *io, enum action action) {
  int compresses = stream->kind == BZ_COMPRESS || stream->kind == LZMA_ENCODE || stream->kind == ZSTD_COMPRESS;
  return io->in_left == 0 && !(compresses && action != CONTINUE);
}

enum { FIRST_OUTPUT = 8 << 10 };

// run(stream, data, start, action, most): feeds the data from `start` on, and returns (output,
// consumed, state), or (None, the error's number, its text) if it fails. The output has at most
// `most` bytes, unless that is negative.
static PyObject *run(PyObject *self, PyObject *arguments) {
  PyObject *capsule;
  Py_buffer data;
  Py_ssize_t start, most;
  int action, code = 0;
  if (!PyArg_ParseTuple(arguments, "Oy*nin", &capsule, &data, &start, &action, &most))
    return NULL;
  struct stream *stream = PyCapsule_GetPointer(capsule, NAME);
  size_t limit = most < 0 ? PTRDIFF_MAX - 64 : (size_t)most, size = limit < FIRST_OUTPUT ? limit : FIRST_OUTPUT;
  PyObject *bytes = stream == NULL ? NULL : PyBytes_FromStringAndSize(NULL, (Py_ssize_t)size);
  if (bytes == NULL || start < 0 || start > data.len || action < CONTINUE || action > FINISH) {
    PyBuffer_Release(&data);
    if (bytes != NULL)
      _Py_DecRef(bytes);
    if (bytes != NULL)
      PyErr_SetString(PyExc_ValueError, "invalid start or action");
    return NULL;
  }
  const char *text = "", *from = (const char *)data.buf + start;
  struct io io = {from, (size_t)(data.len - start), PyBytes_AsString(bytes), size};
  enum state state;
  for (;;) {
    state = step(stream, &io, (enum action)action, &code, &text);
    if (state == ENDED || state == FAILED || (state == WANTS_INPUT && is_done(stream, &io, (enum action)action)))
      break;
    if (io.out_left > 0)
      continue;
    if (size == limit)
      break;
    size_t used = size;
    size = size > limit / 2 ? limit : size * 2;
    if (_PyBytes_Resize(&bytes, (Py_ssize_t)size)) {
      PyBuffer_Release(&data);
      return NULL;
    }
    io.out = PyBytes_AsString(bytes) + used, io.out_left = size - used;
  }
  Py_ssize_t consumed = io.in - from;
  PyBuffer_Release(&data);
  if (state == FAILED) {
    _Py_DecRef(bytes);
    return Py_BuildValue("(Ois)", &_Py_NoneStruct, code, text);
  }
  if (_PyBytes_Resize(&bytes, (Py_ssize_t)(size - io.out_left)))
    return NULL;
  return Py_BuildValue("(Nni)", bytes, consumed, (int)state);
}

static uint32_t rotated(uint32_t value, int bits) { return value << bits | value >> (32 - bits); }

// RFC 7914, section 3.
static void salsa20_8(uint32_t block[16]) {
  uint32_t x[16];
  memcpy(x, block, sizeof x);
  for (int round = 0; round < 4; round++) {
    for (int column = 0; column < 4; column++) {
      uint32_t *a = &x[column * 5 % 16], *b = &x[(column * 5 + 4) % 16], *c = &x[(column * 5 + 8) % 16],
               *d = &x[(column * 5 + 12) % 16];
      *b ^= rotated(*a + *d, 7), *c ^= rotated(*b + *a, 9), *d ^= rotated(*c + *b, 13), *a ^= rotated(*d + *c, 18);
    }
    for (int row = 0; row < 4; row++) {
      uint32_t *line = &x[row * 4], *a = &line[row], *b = &line[(row + 1) % 4], *c = &line[(row + 2) % 4],
               *d = &line[(row + 3) % 4];
      *b ^= rotated(*a + *d, 7), *c ^= rotated(*b + *a, 9), *d ^= rotated(*c + *b, 13), *a ^= rotated(*d + *c, 18);
    }
  }
  for (int word = 0; word < 16; word++)
    block[word] += x[word];
}

// Section 4: `from` and `to` have 2 * r blocks of 16 words and are not the same.
static void block_mix(const uint32_t *from, uint32_t *to, size_t r) {
  uint32_t x[16];
  memcpy(x, from + (2 * r - 1) * 16, sizeof x);
  for (size_t block = 0; block < 2 * r; block++) {
    for (int word = 0; word < 16; word++)
      x[word] ^= from[block * 16 + word];
    salsa20_8(x);
    memcpy(to + (block / 2 + (block % 2) * r) * 16, x, sizeof x);
  }
}

// scrypt_mix(block, n, r): section 5. The machine is little-endian, as the words of the block are.
static PyObject *scrypt_mix(PyObject *self, PyObject *arguments) {
  Py_buffer given;
  Py_ssize_t n, r;
  if (!PyArg_ParseTuple(arguments, "y*nn", &given, &n, &r))
    return NULL;
  size_t size = 128 * (size_t)r, words = size / 4;
  if (n < 2 || (n & (n - 1)) || r < 1 || (size_t)r > (SIZE_MAX / 128) / ((size_t)n + 2) || size != (size_t)given.len) {
    PyBuffer_Release(&given);
    PyErr_SetString(PyExc_ValueError, "Invalid parameter combination for n, r, p, maxmem.");
    return NULL;
  }
  uint32_t *memory = malloc(size * ((size_t)n + 2));
  if (memory == NULL) {
    PyBuffer_Release(&given);
    return PyErr_NoMemory();
  }
  uint32_t *x = memory + (size_t)n * words, *y = x + words;
  memcpy(x, given.buf, size);
  PyBuffer_Release(&given);
  for (size_t i = 0; i < (size_t)n; i++) {
    memcpy(memory + i * words, x, size);
    block_mix(memory + i * words, x, (size_t)r);
  }
  for (size_t i = 0; i < (size_t)n; i++) {
    const uint32_t *other = memory + (x[(2 * (size_t)r - 1) * 16] & ((uint32_t)n - 1)) * words;
    for (size_t word = 0; word < words; word++)
      y[word] = x[word] ^ other[word];
    block_mix(y, x, (size_t)r);
  }
  PyObject *mixed = PyBytes_FromStringAndSize((const char *)x, (Py_ssize_t)size);
  free(memory);
  return mixed;
}

// Not inlined, because the compiler would recognise the multiplication that `__multi3` consists of,
// and let `__multi3` call itself.
static __attribute__((noinline)) uint64_t product(uint32_t a, uint32_t b) { return (uint64_t)a * b; }

// Multiplies 128-bit numbers. The compiler calls it where SQLite multiplies 64-bit numbers in four
// parts; its library, which has it, is not linked.
unsigned __int128 __multi3(unsigned __int128 a, unsigned __int128 b) {
  uint64_t a_low = (uint64_t)a, b_low = (uint64_t)b;
  uint32_t a0 = (uint32_t)a_low, a1 = (uint32_t)(a_low >> 32);
  uint32_t b0 = (uint32_t)b_low, b1 = (uint32_t)(b_low >> 32);
  uint64_t low = product(a0, b0), crossed = product(a1, b0), other = product(a0, b1);
  uint64_t middle = (low >> 32) + (uint32_t)crossed + (uint32_t)other;
  uint64_t high = product(a1, b1) + (crossed >> 32) + (other >> 32) + (middle >> 32);
  high += (uint64_t)(a >> 64) * b_low + a_low * (uint64_t)(b >> 64);
  return (unsigned __int128)high << 64 | (uint64_t)(middle << 32 | (uint32_t)low);
}

// struct_sequence(name, fields, visible): a type like `os.stat_result`, a tuple of the first of its
// fields, whose names are separated by spaces. The type refers to the names, so they are not freed.
static PyObject *struct_sequence(PyObject *self, PyObject *arguments) {
  enum { MOST = 32 };
  const char *name, *names;
  int visible;
  if (!PyArg_ParseTuple(arguments, "ssi", &name, &names, &visible))
    return NULL;
  char *own = malloc(strlen(names) + 1);
  if (own == NULL)
    return PyErr_NoMemory();
  strcpy(own, names);
  PyStructSequence_Field fields[MOST + 1];
  int count = 0;
  for (char *next = own; next != NULL && count < MOST; count++) {
    fields[count] = (PyStructSequence_Field){.name = next, .doc = NULL};
    next = strchr(next, ' ');
    if (next != NULL)
      *next++ = 0;
  }
  fields[count] = (PyStructSequence_Field){.name = NULL, .doc = NULL};
  PyStructSequence_Desc description = {.name = name, .doc = "", .fields = fields, .n_in_sequence = visible};
  return PyStructSequence_NewType(&description);
}

static PyMethodDef METHODS[] = {
    {"bz2_stream", bz2_stream, METH_VARARGS, NULL},
    {"lzma_check_supported", lzma_check_supported, METH_VARARGS, NULL},
    {"lzma_decode_properties", lzma_decode_properties, METH_VARARGS, NULL},
    {"lzma_decoder", lzma_decoder, METH_VARARGS, NULL},
    {"lzma_encode_properties", lzma_encode_properties, METH_VARARGS, NULL},
    {"lzma_encoder", lzma_encoder, METH_VARARGS, NULL},
    {"lzma_stream_check", lzma_stream_check, METH_VARARGS, NULL},
    {"run", run, METH_VARARGS, NULL},
    {"scrypt_mix", scrypt_mix, METH_VARARGS, NULL},
    {"struct_sequence", struct_sequence, METH_VARARGS, NULL},
    {"zstd_bounds", zstd_bounds, METH_VARARGS, NULL},
    {"zstd_dictionary", zstd_dictionary, METH_VARARGS, NULL},
    {"zstd_dictionary_id", zstd_dictionary_id, METH_VARARGS, NULL},
    {"zstd_frame", zstd_frame, METH_VARARGS, NULL},
    {"zstd_pledge", zstd_pledge, METH_VARARGS, NULL},
    {"zstd_reset", zstd_reset, METH_VARARGS, NULL},
    {"zstd_set", zstd_set, METH_VARARGS, NULL},
    {"zstd_stream", zstd_stream, METH_VARARGS, NULL},
    {"zstd_train", zstd_train, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyModuleDef MODULE = {
    .head = {.base = {.references = IMMORTAL}},
    .name = "_native",
    .size = -1,
    .methods = METHODS,
};

__attribute__((visibility("default"))) PyObject *PyInit__native(void) {
  PyObject *module = PyModule_Create2(&MODULE, API_VERSION);
  if (module != NULL) {
    PyModule_AddStringConstant(module, "sqlite_version", SQLITE_VERSION);
    PyModule_AddStringConstant(module, "zstd_version", ZSTD_versionString());
    PyModule_AddIntConstant(module, "zstd_version_number", (long)ZSTD_versionNumber());
    PyModule_AddIntConstant(module, "zstd_output", (long)ZSTD_DStreamOutSize());
    PyModule_AddIntConstant(module, "zstd_default", ZSTD_CLEVEL_DEFAULT);
  }
  return module;
}
