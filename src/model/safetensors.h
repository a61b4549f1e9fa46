// SPDX-License-Identifier: Apache-2.0
// The safetensors container: 8 bytes of header length, a JSON header, then the tensors' bytes.
// Invariant: the tensors of an accepted header cover the data section exactly, without overlap, hole or remainder, and
// every shape times its type's width is its byte range. Nothing here reads tensor data.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/file.h"
#include "base/result.h"

namespace colibri {

/// A type that the format knows; which of them are loadable is the binder's affair.
struct StoredType {
  std::string_view name;  // as the header spells it: "BF16"
  int bytes = 0;          // of one element
  bool operator==(const StoredType& other) const { return name == other.name; }
};

struct TensorInfo {
  std::string name;
  StoredType type;
  std::vector<std::int64_t> shape;
  std::uint64_t offset = 0;  // from the start of the file
  std::uint64_t bytes = 0;
};

/// "[3, 4]", cut short where it is long.
std::string shape_text(const std::vector<std::int64_t>& shape);

/// The tensors of a header, in order of offset. `data_offset` and `file_bytes` are of the file it came from.
Result<std::vector<TensorInfo>> parse_safetensors_header(std::string_view header, std::uint64_t data_offset,
                                                         std::uint64_t file_bytes);

/// Reads and parses a file's header. The message names the file.
Result<std::vector<TensorInfo>> read_safetensors_header(const File& file);

}  // namespace colibri
