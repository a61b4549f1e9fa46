// SPDX-License-Identifier: Apache-2.0
// Writes a .safetensors file whose tensors are known beforehand, in order, without holding them in memory.
// Invariant: the name appears only when the file is whole: it is written beside it, flushed, and renamed.
#pragma once

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace colibri {

struct TensorToWrite {
  std::string name;
  std::string dtype;  // as safetensors writes it: "F32", "BF16"
  std::vector<std::int64_t> shape;
  std::uint64_t bytes = 0;
};

class SafetensorsWriter {
 public:
  /// Writes the header. Error 74 where the file cannot be written, or is a device or folder.
  static Result<SafetensorsWriter> create(std::string path, const std::vector<TensorToWrite>& tensors);

  /// The next bytes of the tensors, in their order.
  Status append(std::span<const std::byte> bytes);

  /// All bytes have come: the file gets its name.
  Status finish();

  SafetensorsWriter(SafetensorsWriter&&) = default;
  SafetensorsWriter& operator=(SafetensorsWriter&&) = default;
  ~SafetensorsWriter();  // nothing is left of a file that was not finished

 private:
  SafetensorsWriter() = default;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  std::string part() const { return path_ + ".part"; }
  Error failed() const;

  std::unique_ptr<std::FILE, Close> file_;
  std::string path_;
  std::uint64_t missing_ = 0;  // bytes still to come
};

}  // namespace colibri
