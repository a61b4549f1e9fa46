// SPDX-License-Identifier: Apache-2.0
// The values that a template computes with, and the heap that owns them.
// Invariant: a Value is 16 plain bytes; everything it points to belongs to the Heap of its render (or to the compiled
// program) and dies with it, so cycles need no care. Strings carry the byte ranges that came from the request.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/json.h"
#include "text/byte_range.h"
#include "text/jinja/fault.h"

namespace colibri::jinja {

struct Str;
struct List;
struct Dict;
struct Space;
struct Callable;
struct Absence;
class Heap;

struct Object {
  virtual ~Object() = default;
};

enum class Kind : std::uint8_t { undefined, none, boolean, integer, real, string, list, dict, space, callable };

class Value {
 public:
  Value() : integer_(0) {}  // undefined, of no known origin
  static Value none() { return Value(Kind::none); }
  static Value boolean(bool b) {
    Value v(Kind::boolean);
    v.integer_ = b;
    return v;
  }
  static Value integer(std::int64_t i) {
    Value v(Kind::integer);
    v.integer_ = i;
    return v;
  }
  static Value real(double d) {
    Value v(Kind::real);
    v.real_ = d;
    return v;
  }
  Value(const Str* s);
  Value(const List* l);
  Value(const Dict* d);
  Value(const Space* s);
  Value(const Callable* c);
  Value(const Absence* a);

  Kind kind() const { return kind_; }
  bool is(Kind kind) const { return kind_ == kind; }
  bool is_undefined() const { return kind_ == Kind::undefined; }
  bool is_none() const { return kind_ == Kind::none; }
  bool is_string() const { return kind_ == Kind::string; }
  bool is_integral() const { return kind_ == Kind::integer || kind_ == Kind::boolean; }  // bool is an int in Python
  bool is_number() const { return is_integral() || kind_ == Kind::real; }

  // The caller knows the kind.
  std::int64_t as_integer() const { return integer_; }
  bool as_boolean() const { return integer_ != 0; }
  double as_real() const { return kind_ == Kind::real ? real_ : static_cast<double>(integer_); }
  const Str& str() const;
  const List& list() const;
  const Dict& dict() const;
  Space& space() const;
  Callable& callable() const;
  const Absence* absence() const;

  const void* identity() const { return object_; }

 private:
  explicit Value(Kind kind) : kind_(kind), integer_(0) {}
  Value(Kind kind, const Object* object) : kind_(kind), object_(object) {}

  Kind kind_ = Kind::undefined;
  union {
    std::int64_t integer_;
    double real_;
    const Object* object_;
  };
};

struct Str final : Object {
  std::string_view text;           // points into `owned`, into another Str of the heap, or into the request
  std::string owned;               // empty where `text` is a view
  std::vector<ByteRange> tainted;  // the parts of `text` that came from the request
  bool markup = false;             // made by `safe` or `escape`: + escapes what is joined to it
};

/// What Python type a sequence is: it decides how it prints, compares and indexes.
enum class Flavor : std::uint8_t { list, tuple, range, generator, keys, values, items };

struct List final : Object {
  std::vector<Value> items;
  Flavor flavor = Flavor::list;
  mutable bool spent = false;  // a generator gives its items once
  bool grouped = false;        // a pair made by groupby: it has .grouper and .list
};

/// Insertion-ordered; keys compare as in Python (1 == 1.0 == true).
struct Dict final : Object {
  std::vector<std::pair<Value, Value>> items;
  std::unordered_map<std::string_view, std::size_t> by_text;  // string keys, kept once there are more than a few

  const Value* find(std::string_view key) const;
  const Value* find(Heap& heap, const Value& key) const;  // fails on a key that Python cannot hash
};

struct Space final : Object {  // namespace(): the one mutable value
  std::vector<std::pair<std::string_view, Value>> attributes;
  Value* find(std::string_view name);
};

struct Args {
  std::vector<Value> positional;
  std::vector<std::pair<std::string_view, Value>> named;
};

class Interpreter;

/// A macro, a bound method, a global function, a loop: what may be called, and what may have attributes.
struct Callable : Object {
  virtual Value call(Interpreter& in, const Args& args) = 0;
  virtual bool attribute(Interpreter&, std::string_view, Value&) { return false; }
  virtual std::string describe() const = 0;  // as repr() of it
};

/// Why a value is undefined; the words are put together only when somebody asks.
struct Absence final : Object {
  std::string_view type;  // of the object that lacks it; empty for a variable; "!" for a ready message
  std::string name;
  bool element = false;  // an index, not an attribute
  std::string message() const;
};

/// Owns the objects of one render and counts what it costs. Lives on one thread.
class Heap {
 public:
  static constexpr std::size_t kStep = 16;  // units of work in one statement; a node of an expression is one unit

  Heap(std::size_t max_bytes, std::size_t max_steps) : bytes_left_(max_bytes), work_left_(max_steps * kStep) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  void charge(std::size_t bytes) {
    if (bytes > bytes_left_) fail_limit("the render needs too much memory");
    bytes_left_ -= bytes;
  }
  void work(std::size_t units) {
    if (units > work_left_) fail_limit("the render takes too many steps");
    work_left_ -= units;
  }
  /// Work of an operation that looks at `bytes` of text once.
  void scan(std::size_t bytes) { work(1 + bytes / 16); }
  /// Refuses what will not fit before any of it is made: `count` pieces of `size` bytes.
  void require(std::size_t count, std::size_t size) const {
    if (size > 0 && count > bytes_left_ / size) fail_limit("the render needs too much memory");
  }

  template <class T>
  T* make() {
    charge(sizeof(T));
    auto owned = std::make_unique<T>();
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }
  template <class T>
  T* adopt(std::unique_ptr<T> owned) {
    charge(sizeof(T));
    T* object = owned.get();
    objects_.push_back(std::move(owned));
    return object;
  }

  /// Text that this heap keeps, wholly tainted or not at all.
  const Str* text(std::string owned, bool tainted = false);
  /// Text that outlives the heap.
  const Str* view(std::string_view text, bool tainted = false);
  /// Bytes [begin, end) of `source`, sharing its memory.
  const Str* slice(const Str& source, std::size_t begin, std::size_t end);
  List* list(Flavor flavor = Flavor::list) {
    List* made = make<List>();
    made->flavor = flavor;
    return made;
  }
  void push(List& list, const Value& value) {
    charge(sizeof(Value));
    list.items.push_back(value);
  }
  Dict* dict() { return make<Dict>(); }
  void set(Dict& dict, const Value& key, const Value& value);
  Value absent(std::string message);  // undefined, with a ready message

  /// `json` outlives the heap: strings are views. With `tainted`, keys and strings count as request text.
  Value from_json(const Json& json, bool tainted);

 private:
  std::deque<std::unique_ptr<Object>> objects_;
  std::size_t bytes_left_;
  std::size_t work_left_;
};

/// A text under construction, with its tainted ranges. `max_bytes` bounds it beside the heap's own bound.
class Builder {
 public:
  explicit Builder(Heap& heap, std::size_t max_bytes = static_cast<std::size_t>(-1))
      : heap_(heap), max_bytes_(max_bytes) {}

  void add(std::string_view text, bool tainted = false);
  void add(const Str& str) { add_slice(str, 0, str.text.size()); }
  void add_slice(const Str& str, std::size_t begin, std::size_t end);
  std::size_t size() const { return text_.size(); }
  const std::string& text() const { return text_; }
  std::vector<ByteRange>& tainted() { return tainted_; }
  std::string take() { return std::move(text_); }
  const Str* finish(bool markup = false);

 private:
  void mark(std::size_t begin, std::size_t end);

  Heap& heap_;
  std::size_t max_bytes_;
  std::string text_;
  std::vector<ByteRange> tainted_;
};

/// Python's name of the value's type: "str", "NoneType", "dict_items", ...
std::string_view type_name(const Value& value);

inline Value::Value(const Str* s) : Value(Kind::string, s) {}
inline Value::Value(const List* l) : Value(Kind::list, l) {}
inline Value::Value(const Dict* d) : Value(Kind::dict, d) {}
inline Value::Value(const Space* s) : Value(Kind::space, s) {}
inline Value::Value(const Callable* c) : Value(Kind::callable, c) {}
inline Value::Value(const Absence* a) : Value(Kind::undefined, a) {}
inline const Str& Value::str() const { return *static_cast<const Str*>(object_); }
inline const List& Value::list() const { return *static_cast<const List*>(object_); }
inline const Dict& Value::dict() const { return *static_cast<const Dict*>(object_); }
inline Space& Value::space() const { return *const_cast<Space*>(static_cast<const Space*>(object_)); }
inline Callable& Value::callable() const { return *const_cast<Callable*>(static_cast<const Callable*>(object_)); }
inline const Absence* Value::absence() const { return static_cast<const Absence*>(object_); }

}  // namespace colibri::jinja
