// SPDX-License-Identifier: Apache-2.0
// Header: 8 bytes of little-endian length, then JSON padded with spaces to 8 bytes, as the format asks.
#include "model/safetensors_writer.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include <unistd.h>

#include "base/json.h"

namespace colibri {

Error SafetensorsWriter::failed() const { return {Exit::io, path_ + ": cannot write: " + std::strerror(errno)}; }

SafetensorsWriter::~SafetensorsWriter() {
  if (file_) std::remove(part().c_str());
}

Result<SafetensorsWriter> SafetensorsWriter::create(std::string path, const std::vector<TensorToWrite>& tensors) {
  std::error_code ignored;
  if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored))
    return Error{Exit::io, path + ": cannot write: not a regular file"};
  SafetensorsWriter writer;
  writer.path_ = std::move(path);
  Json::Object header;
  for (const TensorToWrite& tensor : tensors) {
    const std::uint64_t begin = writer.missing_;
    writer.missing_ += tensor.bytes;
    header.emplace_back(tensor.name, Json::Object{{"dtype", tensor.dtype},
                                                  {"shape", Json::Array(tensor.shape.begin(), tensor.shape.end())},
                                                  {"data_offsets", Json::Array{begin, writer.missing_}}});
  }
  std::string text = write_json(header);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  const auto length = static_cast<std::uint64_t>(text.size());
  writer.file_.reset(std::fopen(writer.part().c_str(), "wb"));
  if (!writer.file_ || std::fwrite(&length, sizeof length, 1, writer.file_.get()) != 1 ||
      std::fwrite(text.data(), 1, text.size(), writer.file_.get()) != text.size())
    return writer.failed();
  return writer;
}

Status SafetensorsWriter::append(std::span<const std::byte> bytes) {
  CHECK(bytes.size() <= missing_);
  missing_ -= bytes.size();
  if (std::fwrite(bytes.data(), 1, bytes.size(), file_.get()) != bytes.size()) return failed();
  return {};
}

Status SafetensorsWriter::finish() {
  CHECK(missing_ == 0);
  if (std::fflush(file_.get()) != 0 || fsync(fileno(file_.get())) != 0) return failed();
  if (std::rename(part().c_str(), path_.c_str()) != 0) return failed();
  file_.reset();
  return {};
}

}  // namespace colibri
