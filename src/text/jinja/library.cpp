// SPDX-License-Identifier: Apache-2.0
// Argument binding, global functions, and what loops and macros offer.
#include "text/jinja/library.h"

#include <algorithm>

#include "text/jinja/interpreter.h"
#include "text/jinja/print.h"
#include "text/jinja/strftime.h"

namespace colibri::jinja {
namespace {

constexpr std::int64_t kMaxRange = 100'000;  // items, as Jinja's sandbox has it

using GlobalFn = Value (*)(Interpreter& in, const Args& args);

struct Global final : Callable {
  GlobalFn fn = nullptr;
  std::string_view name;
  Value call(Interpreter& in, const Args& args) override { return fn(in, args); }
  std::string describe() const override { return "<function " + std::string(name) + ">"; }
};

Value make_range(Interpreter& in, const Args& args) {
  const auto& given = args.positional;
  if (given.empty() || given.size() > 3 || !args.named.empty()) fail("range expected 1 to 3 arguments");
  const auto bound = [&](std::size_t i) { return to_integer(given[i], "range"); };
  const std::int64_t begin = given.size() > 1 ? bound(0) : 0;
  const std::int64_t end = given.size() > 1 ? bound(1) : bound(0);
  const std::int64_t step = given.size() > 2 ? bound(2) : 1;
  if (step == 0) fail("range() arg 3 must not be zero");
  List* list = in.heap().list(Flavor::range);
  for (std::int64_t i = begin; step > 0 ? i < end : i > end;) {
    if (static_cast<std::int64_t>(list->items.size()) >= kMaxRange)
      fail_limit("a range has more than " + std::to_string(kMaxRange) + " items");
    in.heap().push(*list, Value::integer(i));
    if (__builtin_add_overflow(i, step, &i)) break;
  }
  in.heap().work(list->items.size());
  return list;
}

/// dict(mapping or pairs, name=value, ...)
Dict* make_dict(Interpreter& in, const Args& args) {
  Heap& heap = in.heap();
  Dict* dict = heap.dict();
  if (args.positional.size() > 1) fail("dict expected at most 1 argument");
  if (!args.positional.empty()) {
    const Value& from = args.positional[0];
    if (from.is(Kind::dict)) {
      for (const auto& [key, value] : from.dict().items) heap.set(*dict, key, value);
    } else {
      for (const Value& pair : iterate(heap, from).items) {
        const List& parts = iterate(heap, pair);
        if (parts.items.size() != 2) fail("dictionary update sequence element has a length other than 2");
        heap.set(*dict, parts.items[0], parts.items[1]);
      }
    }
  }
  for (const auto& [name, value] : args.named) heap.set(*dict, heap.view(name), value);
  return dict;
}

Value make_namespace(Interpreter& in, const Args& args) {
  const Dict* dict = make_dict(in, args);
  auto* space = in.heap().make<Space>();
  for (const auto& [key, value] : dict->items) space->attributes.emplace_back(to_str(key, "namespace").text, value);
  return space;
}

Value raise_exception(Interpreter& in, const Args& args) {
  const Bound bound("raise_exception", args, {"message"}, 1);
  fail(std::string(as_text(in.heap(), bound[0]).text));
}

Value strftime_now(Interpreter& in, const Args& args) {
  const Bound bound("strftime_now", args, {"format"}, 1);
  const Str& format = to_str(bound[0], "strftime_now");
  in.heap().scan(format.text.size());
  return in.heap().text(format_time(format.text, in.now()), !format.tainted.empty());
}

/// cycler(a, b, ...): next() walks through the items again and again.
struct Cycler final : Callable {
  std::vector<Value> items;
  std::size_t at = 0;
  Value call(Interpreter&, const Args&) override { fail("'Cycler' object is not callable"); }
  bool attribute(Interpreter& in, std::string_view name, Value& value) override {
    if (name == "current") {
      value = items[at];
      return true;
    }
    if (name != "next" && name != "reset") return false;
    auto* method = in.heap().make<Method>();
    method->self = this;
    method->name = name;
    method->fn = name == "next" ? &next : &reset;
    value = method;
    return true;
  }
  std::string describe() const override { return "<Cycler>"; }

  static Cycler& of(const Value& self) { return static_cast<Cycler&>(self.callable()); }
  static Value next(Interpreter&, const Value& self, const Args&) {
    Cycler& cycler = of(self);
    const Value item = cycler.items[cycler.at];
    cycler.at = (cycler.at + 1) % cycler.items.size();
    return item;
  }
  static Value reset(Interpreter&, const Value& self, const Args&) {
    of(self).at = 0;
    return Value::none();
  }
};

Value make_cycler(Interpreter& in, const Args& args) {
  if (args.positional.empty()) fail("at least one item has to be provided");
  auto* cycler = in.heap().make<Cycler>();
  cycler->items = args.positional;
  return cycler;
}

/// joiner(sep): nothing when first called, then the separator.
struct Joiner final : Callable {
  Value separator;
  bool used = false;
  Value call(Interpreter& in, const Args&) override {
    return std::exchange(used, true) ? separator : Value(in.heap().view(""));
  }
  std::string describe() const override { return "<Joiner>"; }
};

Value make_joiner(Interpreter& in, const Args& args) {
  const Bound bound("joiner", args, {"sep"});
  auto* joiner = in.heap().make<Joiner>();
  joiner->separator = bound.get(0, in.heap().view(", "));
  return joiner;
}

Value cycle(Interpreter&, const Value& self, const Args& args) {
  const auto& loop = static_cast<const Loop&>(self.callable());
  if (args.positional.empty()) fail("no items for cycling given");
  return args.positional[static_cast<std::size_t>(loop.index0) % args.positional.size()];
}

Value changed(Interpreter& in, const Value& self, const Args& args) {
  auto& loop = static_cast<Loop&>(self.callable());
  List* seen = in.heap().list(Flavor::tuple);
  for (const Value& value : args.positional) in.heap().push(*seen, value);
  const bool same = std::exchange(loop.changed_once, true) && equals(in.heap(), loop.last_changed, seen);
  if (!same) loop.last_changed = seen;
  return Value::boolean(!same);
}

}  // namespace

void define_globals(Interpreter& in) {
  static constexpr std::pair<std::string_view, GlobalFn> kGlobals[] = {
      {"range", make_range},
      {"dict", [](Interpreter& i, const Args& args) { return Value(make_dict(i, args)); }},
      {"namespace", make_namespace},
      {"raise_exception", raise_exception},
      {"strftime_now", strftime_now},
      {"cycler", make_cycler},
      {"joiner", make_joiner},
  };
  for (const auto& [name, fn] : kGlobals) {
    auto* global = in.heap().make<Global>();
    global->fn = fn;
    global->name = name;
    in.define(name, global);
  }
}

Bound::Bound(std::string_view function, const Args& args, std::initializer_list<std::string_view> parameters,
             std::size_t required)
    : function_(function) {
  if (args.positional.size() > parameters.size())
    fail(std::string(function) + "() takes at most " + std::to_string(parameters.size()) + " arguments (" +
         std::to_string(args.positional.size()) + " given)");
  for (std::size_t i = 0; i < args.positional.size(); ++i) values_[i] = args.positional[i];
  for (const auto& [name, value] : args.named) {
    const auto at =
        static_cast<std::size_t>(std::find(parameters.begin(), parameters.end(), name) - parameters.begin());
    if (at == parameters.size())
      fail(std::string(function) + "() got an unexpected keyword argument '" + std::string(name) + "'");
    if (values_[at]) fail(std::string(function) + "() got multiple values for argument '" + std::string(name) + "'");
    values_[at] = value;
  }
  for (std::size_t i = 0; i < required; ++i)
    if (!values_[i])
      fail(std::string(function) + "() missing required argument '" + std::string(parameters.begin()[i]) + "'");
}

std::int64_t Bound::integer(std::size_t i, std::int64_t otherwise) const {
  return values_[i] ? to_integer(*values_[i], function_) : otherwise;
}

bool Bound::flag(std::size_t i, bool otherwise) const { return values_[i] ? truthy(*values_[i]) : otherwise; }

bool Macro::attribute(Interpreter& in, std::string_view name, Value& value) {
  const Signature& signature = stmt->signature;
  if (name == "name") {
    value = signature.name;
  } else if (name == "arguments") {
    List* names = in.heap().list(Flavor::tuple);
    for (const Str* parameter : signature.parameter_names) in.heap().push(*names, parameter);
    value = names;
  } else if (name == "caller" || name == "catch_kwargs" || name == "catch_varargs") {
    value = Value::boolean(name == "caller"         ? signature.uses_caller
                           : name == "catch_kwargs" ? signature.uses_kwargs
                                                    : signature.uses_varargs);
  } else {
    return false;
  }
  return true;
}

bool Loop::peek(Interpreter& in) {
  if (!has_after) has_after = in.pull(*this, after);
  return has_after;
}

std::int64_t Loop::length(Interpreter& in) {
  if (!sized) {  // the test must be run on all that is left
    List* all = in.heap().list();
    Value item;
    if (has_after) in.heap().push(*all, after);
    while (in.pull(*this, item)) in.heap().push(*all, item);
    const auto seen = static_cast<std::size_t>(index0 + 1);
    List* padded = in.heap().list();
    in.heap().charge(seen * sizeof(Value));
    padded->items.resize(seen);
    padded->items.insert(padded->items.end(), all->items.begin(), all->items.end());
    items = padded;
    next = seen;
    has_after = false;
    sized = filtered = true;
  }
  return static_cast<std::int64_t>(items->items.size());
}

Value Loop::call(Interpreter& in, const Args& args) {
  const Bound bound("loop", args, {"iterable"}, 1);
  return in.recurse(*this, bound[0]);
}

bool Loop::attribute(Interpreter& in, std::string_view name, Value& value) {
  const auto number = [&](std::int64_t n) {
    value = Value::integer(n);
    return true;
  };
  if (name == "index") return number(index0 + 1);
  if (name == "index0") return number(index0);
  if (name == "length") return number(length(in));
  if (name == "revindex") return number(length(in) - index0);
  if (name == "revindex0") return number(length(in) - index0 - 1);
  if (name == "depth") return number(depth0 + 1);
  if (name == "depth0") return number(depth0);
  if (name == "first" || name == "last") {
    value = Value::boolean(name == "first" ? index0 == 0 : !peek(in));
  } else if (name == "previtem") {
    value = index0 == 0 ? in.heap().absent("there is no previous item") : before;
  } else if (name == "nextitem") {
    value = peek(in) ? after : in.heap().absent("there is no next item");
  } else if (name == "cycle" || name == "changed") {
    auto* method = in.heap().make<Method>();
    method->self = this;
    method->fn = name == "cycle" ? &cycle : &changed;
    method->name = name;
    value = method;
  } else {
    return false;
  }
  return true;
}

}  // namespace colibri::jinja
