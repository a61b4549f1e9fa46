// SPDX-License-Identifier: Apache-2.0
// The measured errors in docs/FAMILIES.md, between its two markers. With COLIBRI_WRITE_DOCS set the tests write them;
// else they hold what stands there against what they measure.
#pragma once

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <span>
#include <sstream>
#include <string>
#include <vector>

namespace colibri {

class ConformanceTable {
 public:
  /// `devices` are the columns.
  ConformanceTable(std::string path, std::span<const char* const> devices)
      : path_(std::move(path)), devices_(devices.begin(), devices.end()) {}

  void note(const std::string& family, const std::string& device, double error) {
    measured_[family][device] = error;
    if (std::getenv("COLIBRI_WRITE_DOCS") != nullptr) return write();
    const double documented = read(family, device);
    EXPECT_TRUE(error <= 2.0 * documented && error >= 0.5 * documented)
        << family << " on " << device << " is off by " << error << ", " << path_ << " says " << documented
        << ": run this test with COLIBRI_WRITE_DOCS=1";
  }

 private:
  static constexpr const char* kBegin = "<!-- conformance -->\n";
  static constexpr const char* kEnd = "<!-- /conformance -->";

  std::string read() const {
    std::ostringstream text;
    text << std::ifstream(path_).rdbuf();
    return text.str();
  }

  /// -1 where the table has no such cell.
  double read(const std::string& family, const std::string& device) const {
    const std::string text = read();
    const std::string start = "\n| " + family + " |";
    const std::size_t at = text.find(start);
    if (at == std::string::npos) return -1.0;
    std::istringstream cells(text.substr(at + start.size(), 200));
    for (const std::string& each : devices_) {
      double error = -1.0;
      std::string bar;
      cells >> error >> bar;
      if (each == device) return error;
    }
    return -1.0;
  }

  std::string row(const std::string& family, const std::map<std::string, double>& errors) const {
    std::string text = "| " + family + " |";
    for (const std::string& device : devices_) {
      char cell[32];
      std::snprintf(cell, sizeof cell, " %.1e |", errors.contains(device) ? errors.at(device) : -1.0);
      text += cell;
    }
    return text;
  }

  void write() const {
    std::string text = read();
    const std::size_t begin = text.find(kBegin);
    const std::size_t end = text.find(kEnd);
    ASSERT_TRUE(begin < end && end != std::string::npos) << path_ << " lacks " << kBegin;
    std::string table = "| fixture |";
    for (const std::string& device : devices_) table += " " + device + " |";
    table += "\n|---|";
    for (std::size_t i = 0; i < devices_.size(); ++i) table += "---|";
    for (const auto& [family, errors] : measured_) table += "\n" + row(family, errors);
    const std::size_t from = begin + std::string(kBegin).size();
    std::ofstream(path_) << text.replace(from, end - from, table + "\n");
  }

  std::string path_;
  std::vector<std::string> devices_;
  std::map<std::string, std::map<std::string, double>> measured_;  // by family and device
};

}  // namespace colibri
