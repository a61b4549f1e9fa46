// SPDX-License-Identifier: Apache-2.0
// Tensors are cut into pieces of whole rows in the order of the files; threads take the next piece each.
#include "model/read_weights.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "model/pack.h"

namespace colibri {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{1} << 20;     // stays in the second-level cache
constexpr std::size_t kMaxPieceBytes = std::size_t{8} << 20;  // for rows so long that a tile of 16 needs it

struct Piece {
  const Binding* binding = nullptr;
  const Encoding* encoding = nullptr;  // nullptr: plain numbers
  const File* file = nullptr;
  DType type = DType::bf16;   // of plain numbers
  std::size_t row_bytes = 0;  // as stored
  std::uint64_t offset = 0;   // in the file
  int first_row = 0;          // of those that the binding takes
  int rows = 0;

  std::size_t count() const { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(binding->cols); }
  std::size_t bytes() const { return static_cast<std::size_t>(rows) * row_bytes; }
};

DType dtype_of(const StoredType& type) {
  return type.name == "F32" ? DType::f32 : type.name == "F16" ? DType::f16 : DType::bf16;
}

/// Rows per piece: whole tiles where they fit.
int rows_per_piece(std::size_t row_bytes) {
  if (row_bytes * kTileRows > kMaxPieceBytes)
    return static_cast<int>(std::max(kMaxPieceBytes / row_bytes, std::size_t{1}));
  return std::max(static_cast<int>(kPieceBytes / row_bytes) / kTileRows, 1) * kTileRows;
}

std::vector<Piece> cut(const Checkpoint& checkpoint, const std::vector<Binding>& bindings, const Encodings& encodings) {
  std::vector<Piece> pieces;
  for (const Binding& binding : bindings) {
    Piece piece{.binding = &binding};
    if (const auto encoding = encodings.find(binding.name); encoding != encodings.end()) {
      piece.encoding = &encoding->second;
      piece.file = piece.encoding->codes.file;
      piece.row_bytes = static_cast<std::size_t>(piece.encoding->row_bytes());
      piece.offset = piece.encoding->codes.tensor->offset;
    } else {
      const Checkpoint::Place place = *checkpoint.find(binding.name);
      const Checkpoint::Shard& shard = checkpoint.shards()[place.shard];
      const TensorInfo& tensor = shard.tensors[place.tensor];
      piece.file = &shard.file;
      piece.type = dtype_of(tensor.type);
      piece.row_bytes = static_cast<std::size_t>(binding.cols) * dtype_bytes(piece.type);
      piece.offset = tensor.offset;
    }
    piece.offset += static_cast<std::uint64_t>(binding.stored_row) * piece.row_bytes;
    const int step = rows_per_piece(piece.row_bytes);
    for (; piece.first_row < binding.rows; piece.first_row += step) {
      piece.rows = std::min(step, binding.rows - piece.first_row);
      pieces.push_back(piece);
      piece.offset += piece.bytes();
    }
  }
  std::sort(pieces.begin(), pieces.end(),
            [](const Piece& a, const Piece& b) { return a.file != b.file ? a.file < b.file : a.offset < b.offset; });
  return pieces;
}

/// Norms and biases keep the precision they are stored in.
void store_floats(const Piece& piece, const std::byte* data) {
  const Binding& binding = *piece.binding;
  const auto cols = static_cast<std::size_t>(binding.cols);
  for (std::size_t i = 0; i < piece.count(); ++i) {
    float value = 0.0F;
    std::uint16_t half = 0;
    if (piece.type == DType::f32) {
      std::memcpy(&value, data + 4 * i, 4);
    } else {
      std::memcpy(&half, data + 2 * i, 2);
      value = piece.type == DType::f16 ? f16_to_float(half) : bf16_to_float(half);
    }
    const std::size_t row = static_cast<std::size_t>(piece.first_row) + i / cols;
    binding.values[i % cols * static_cast<std::size_t>(binding.rows) + row] = value + binding.plus;
  }
}

/// Reads one piece into `data` and stores it.
Status load_piece(const Piece& piece, std::byte* data, DecodeBuffers& buffers) {
  const Binding& binding = *piece.binding;
  auto* values = reinterpret_cast<std::uint16_t*>(data);
  if (piece.encoding != nullptr) {
    TRY_STATUS(decode_rows(*piece.encoding, binding.stored_row + piece.first_row, piece.rows, buffers, values));
  } else {
    TRY_STATUS(piece.file->read_at(piece.offset, {data, piece.bytes()}));
    if (binding.values != nullptr) store_floats(piece, data);
    if (piece.type != DType::bf16) round_to_bf16(data, piece.type, piece.count());
  }
  if (!all_finite_bf16(values, piece.count())) {
    return data_error(piece.file->path() + ": tensor " + binding.name +
                      " holds NaN or infinity; the checkpoint is damaged, fetch it again");
  }
  if (binding.transposed) {
    const int rows = binding.odd == nullptr ? binding.cols : binding.cols / 2;
    const int step = binding.odd == nullptr || binding.halves ? 1 : 2;
    const auto pack = [&](std::byte* tiles, int first) {
      pack_columns(tiles, rows, binding.rows, piece.first_row, piece.rows, values + first, binding.cols, step);
    };
    pack(binding.tiles, 0);
    if (binding.odd != nullptr) pack(binding.odd, binding.halves ? rows : 1);
  } else if (binding.tiles != nullptr) {
    const int step = binding.odd == nullptr ? 1 : 2;
    const auto pack = [&](std::byte* tiles, int turn) {
      const int skipped = (turn + piece.first_row) % step;
      pack_rows(tiles, binding.cols, binding.first_row + (piece.first_row + skipped) / step,
                (piece.rows - skipped + step - 1) / step, values + std::ptrdiff_t{skipped} * binding.cols, step);
    };
    pack(binding.tiles, 0);
    if (binding.odd != nullptr) pack(binding.odd, 1);
  }
  return {};
}

/// What the threads share.
struct Work {
  explicit Work(const std::vector<Piece>& all) : pieces(all) {
    for (const Piece& piece : pieces) {
      buffer_bytes = std::max({buffer_bytes, piece.bytes(), piece.count() * sizeof(std::uint16_t)});
      total_bytes += piece.bytes();
    }
  }

  const std::vector<Piece>& pieces;
  std::size_t buffer_bytes = 0;
  std::uint64_t total_bytes = 0;
  std::atomic<std::size_t> next{0};
  std::atomic<std::uint64_t> done_bytes{0};
  std::mutex mutex;
  std::optional<Error> error;  // the first one; guarded by mutex

  void fail(Error first) {
    const std::lock_guard lock(mutex);
    if (!error) error = std::move(first);
    next = pieces.size();
  }

  void run(const LoadProgress& progress) {
    auto buffer = Buffer::allocate(buffer_bytes, "the load buffer");
    if (!buffer.ok()) return fail(std::move(buffer).error());
    DecodeBuffers buffers;
    for (std::size_t i = next++; i < pieces.size(); i = next++) {
      if (Status status = load_piece(pieces[i], buffer->data(), buffers); !status.ok())
        return fail(std::move(status).error());
      done_bytes += pieces[i].bytes();
      if (progress) progress(done_bytes, total_bytes);
    }
  }
};

std::string rounding_warning(const Checkpoint& checkpoint, const std::vector<Binding>& bindings,
                             const Encodings& encodings) {
  if (!encodings.empty())
    return std::to_string(encodings.size()) + " quantised tensors were decoded to bf16 and take its memory";
  std::size_t count = 0;
  for (const Binding& binding : bindings) {
    const Checkpoint::Place place = *checkpoint.find(binding.name);
    const StoredType type = checkpoint.shards()[place.shard].tensors[place.tensor].type;
    if (binding.tiles != nullptr && binding.stored_row == 0 && dtype_of(type) != DType::bf16) ++count;
  }
  return count == 0 ? "" : std::to_string(count) + " matrices were rounded from F32 or F16 to bf16";
}

}  // namespace

Result<std::string> read_weights(const Checkpoint& checkpoint, const std::vector<Binding>& bindings,
                                 const Encodings& encodings, int n_threads, const LoadProgress& progress) {
  const std::vector<Piece> pieces = cut(checkpoint, bindings, encodings);
  Work work(pieces);
  std::vector<std::thread> others;
  try {
    for (int i = 1; i < n_threads; ++i) others.emplace_back([&work] { work.run({}); });
  } catch (const std::system_error&) {
    // No more threads to be had: those that run do the work.
  }
  work.run(progress);
  for (std::thread& thread : others) thread.join();
  if (work.error) return std::move(*work.error);
  if (progress) progress(work.total_bytes, work.total_bytes);
  return rounding_warning(checkpoint, bindings, encodings);
}

}  // namespace colibri
