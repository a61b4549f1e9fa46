// SPDX-License-Identifier: Apache-2.0
// The command line: flags into options, options into a command, its Status into an exit code. CLI11 is seen here alone.
#include "apps/cli.h"

#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <limits>
#include <sstream>

#include <CLI/CLI.hpp>

#include "apps/options.h"
#include "apps/version.h"
#include "base/file.h"
#include "model/shapes.h"

namespace colibri {
namespace {

constexpr std::uint64_t kMaxConfigBytes = std::uint64_t{1} << 20;
constexpr const char* kModelHelp = "a checkpoint's directory, or ORG/NAME from the local Hugging Face cache (HF_HOME)";

/// 512M, 8G, 1.5G, plain bytes: K, M, G are powers of 1024.
std::string read_size(const std::string& text, std::size_t& bytes) {
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  double factor = 1.0;
  const std::string unit(end);
  if (unit == "K" || unit == "k") factor = 1024.0;
  if (unit == "M" || unit == "m") factor = 1024.0 * 1024.0;
  if (unit == "G" || unit == "g") factor = 1024.0 * 1024.0 * 1024.0;
  const double value = number * factor;
  if (end == text.c_str() || (factor == 1.0 && !unit.empty()) || !(value >= 0.0 && value < 0x1p60))
    return "'" + text + "' is no size; write it like 512M or 8G";
  bytes = static_cast<std::size_t>(value);
  return {};
}

void add_size(CLI::App& app, const char* flag, std::size_t& bytes, const char* help) {
  app.add_option_function<std::string>(
         flag,
         [flag, &bytes](const std::string& text) {
           if (const std::string wrong = read_size(text, bytes); !wrong.empty())
             throw CLI::ValidationError(flag, wrong);
         },
         help)
      ->type_name("SIZE");
}

/// A number from `low` to `high`. Unlike the parser's own check it refuses NaN and the empty text.
CLI::Validator number(double low, double high) {
  char range[48];
  std::snprintf(range, sizeof range, "%.10g..%.10g", low, high);
  return {[low, high, range = std::string(range)](const std::string& text) {
            char* end = nullptr;
            const double value = std::strtod(text.c_str(), &end);
            const bool whole = end != text.c_str() && *end == '\0';
            return whole && value >= low && value <= high ? "" : "'" + text + "' is no number in " + range;
          },
          range};
}

/// A seed is 64 bits, and no other text stands for one: the parser alone would take -1 and wrap it.
std::string check_seed(const std::string& text) {
  std::uint64_t seed = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, seed);
  return error == std::errc() && next == end ? "" : "'" + text + "' is no whole number in 0..2^64-1";
}

/// A message may quote a path or a tensor's name: control characters in it neither break the line nor reach a terminal.
void print_error(std::string_view message) {
  std::string line = "colibri: ";
  for (const char c : message) {
    const auto byte = static_cast<unsigned char>(c);
    char escape[8];
    std::snprintf(escape, sizeof escape, "\\x%02x", byte);
    line += byte < 0x20 || byte == 0x7f ? std::string(escape) : std::string(1, c);
  }
  std::fprintf(stderr, "%s\n", line.c_str());
}

int fail(const Status& status) {
  print_error(status.error().message);
  return static_cast<int>(status.error().code);
}

/// No command means serve: `colibri` with COLIBRI_MODELS, and `colibri --port 9000`.
bool means_serve(const std::vector<std::string>& arguments) {
  if (arguments.empty()) return std::getenv("COLIBRI_MODELS") != nullptr;
  const std::string& first = arguments[0];
  return first.starts_with("--") && first != "--help" && first != "--version";
}

void add_common(CLI::App& app, CommonOptions& o) {
  app.add_option("--device", o.device, "auto, cpu, cuda or reference (slow, exact: for comparing)")
      ->check(CLI::IsMember({"auto", "cpu", "cuda", "reference"}))
      ->capture_default_str();
  app.add_option("--threads", o.threads, "CPU threads; 0 takes every core this process may use")
      ->check(CLI::Range(0, 1024))
      ->capture_default_str();
  app.add_option("--dtype", o.dtype, "how weights are kept; this version has bf16")
      ->check(CLI::IsMember({"bf16"}))
      ->capture_default_str();
  app.add_option("--math", o.math,
                 "native, or fp32 for comparing with other engines (the CPU computes in fp32 in both)")
      ->check(CLI::IsMember({"fp32", "native"}))
      ->capture_default_str();
  app.add_option("--context", o.context, "most tokens of one conversation; 0 takes the model's own")
      ->check(CLI::Range(0, 1 << 28));
  add_size(app, "--ram-budget", o.ram_budget, "refuse to start where weights and cache need more host memory");
  add_size(app, "--vram-budget", o.vram_budget, "the same for GPU memory; without a GPU it changes nothing");
}

void add_sampling(CLI::App& app, SamplingOptions& o) {
  app.add_option("--max-tokens", o.max_tokens, "most tokens of an answer; as many as the context holds by default")
      ->check(number(1, std::numeric_limits<int>::max()));
  app.add_option("--temperature", o.temperature, "0 always takes the likeliest token")->check(number(0, 2));
  app.add_option("--top-p", o.top_p, "sample among the likeliest tokens that together reach this probability")
      ->check(number(1e-6, 1));
  app.add_option("--top-k", o.top_k, "sample among this many; 0 is off")
      ->check(number(0, std::numeric_limits<int>::max()));
  app.add_option("--min-p", o.min_p, "drop tokens below this share of the likeliest one's probability")
      ->check(number(0, 1));
  app.add_option("--repetition-penalty", o.repetition_penalty, "above 1 discourages tokens of prompt and answer")
      ->check(number(1e-3, 10));
  app.add_option("--presence-penalty", o.presence_penalty, "subtracted once from tokens of the answer")
      ->check(number(-2, 2));
  app.add_option("--frequency-penalty", o.frequency_penalty, "subtracted as often as the answer has the token")
      ->check(number(-2, 2));
  app.add_option("--stop", o.stop, "end the answer before this text; may be given again")->allow_extra_args(false);
  app.add_option("--seed", o.seed, "the same seed gives the same answer; drawn at random by default")
      ->check(CLI::Validator(check_seed, ""));
  app.add_flag("--ignore-eos", o.ignore_eos, "go on after the model's end of answer (for measuring)");
}

void add_model(CLI::App& app, std::string& model) { app.add_option("MODEL", model, kModelHelp)->required(); }

void add_format(CLI::App& app, bool& json) {
  app.add_option_function<std::string>(
         "--format", [&json](const std::string& text) { json = text == "json"; },
         "text, or json: exactly one document on stdout")
      ->check(CLI::IsMember({"text", "json"}))
      ->default_str("text");
}

/// Each long flag also as COLIBRI_<FLAG>; a flag on the line wins. Only for the command that will run: the parser
/// reads variables for all, and --prompt is a text for one and a number for another.
void add_environment(CLI::App& app) {
  for (CLI::Option* option : app.get_options()) {
    const auto names = option->get_lnames();
    if (names.empty() || names[0] == "help" || names[0] == "version") continue;
    std::string variable = "COLIBRI_" + names[0];
    for (char& c : variable) c = c == '-' ? '_' : static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
    option->envname(variable);
  }
  for (CLI::App* group : app.get_subcommands([](CLI::App* inner) { return inner->get_name().empty(); }))
    add_environment(*group);
}

/// The --config of a line that is not parsed yet.
std::string config_path(const std::vector<std::string>& arguments) {
  constexpr std::string_view kFlag = "--config";
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] == kFlag && i + 1 < arguments.size()) return arguments[i + 1];
    if (arguments[i].starts_with("--config=")) return arguments[i].substr(kFlag.size() + 1);
  }
  const char* variable = std::getenv("COLIBRI_CONFIG");
  return variable == nullptr ? "" : variable;
}

/// A file's flags become the environment variables that are not set, so both have the same rank below the line.
/// The parser's own configuration files are read for the program alone, not for its commands.
Status take_config(const CLI::App& command, const std::string& path) {
  TRY(text, read_file(path, kMaxConfigBytes).at("--config"));
  std::istringstream lines(text);
  for (const CLI::ConfigItem& item : CLI::ConfigTOML().from_config(lines)) {
    const CLI::Option* option = command.get_option_no_throw("--" + item.name);
    if (!item.parents.empty())
      return Error{Exit::config, path + ": [" + item.parents[0] + "]: write flags without a section"};
    if (option == nullptr || option->get_envname().empty())
      return Error{Exit::config, path + ": " + item.name + ": no flag of " + command.get_name()};
    if (item.inputs.size() != 1 && option->get_delimiter() != ',')
      return Error{Exit::config, path + ": " + item.name + ": wants one value"};
    setenv(option->get_envname().c_str(), CLI::detail::join(item.inputs, ",").c_str(), 0);
  }
  return {};
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app("Colibri serves Mixture-of-Experts models at the speed of the memory they live in.");
  app.name("colibri");
  app.set_version_flag("--version", std::string("colibri ") + version() + " (" + commit() + ")");
  app.require_subcommand(0, 1);
  app.fallthrough(false);
  app.footer(
      "Start here:\n"
      "  colibri run models/colibri-tiny --prompt \"Give the symbol for tin.\"\n"
      "  colibri chat models/colibri-tiny\n"
      "  colibri serve models/colibri-tiny        an OpenAI-compatible server on port 8000\n"
      "  colibri inspect ORG/NAME                 what a checkpoint is and what it needs\n"
      "No command means serve, with the models in COLIBRI_MODELS (separated by commas).\n"
      "'colibri COMMAND --help' explains a command.");
  std::function<Status()> action;
  std::string config_file;
  const auto command = [&](const char* name, const char* help, auto& options,
                           Status (*run)(const std::decay_t<decltype(options)>&)) {
    CLI::App* sub = app.add_subcommand(name, help);
    sub->add_option("--config", config_file, "read flags from a TOML file; the line and the environment win")
        ->type_name("FILE");
    sub->callback([&action, &options, run] { action = [&options, run] { return run(options); }; });
    return sub;
  };

  RunOptions run;
  CLI::App* sub = command("run", "answer one prompt", run, run_command);
  add_model(*sub, run.model);
  auto* source = sub->add_option_group("prompt", "one of");
  source->add_option("--prompt", run.prompt, "what to say to the model; - reads it from standard input");
  source->add_option("--messages", run.messages, "a JSON file {\"messages\": [...]} with any other template variable")
      ->type_name("FILE");
  source->add_option("--ids", run.ids, "token ids, as 1,2,3; needs no tokenizer files");
  source->require_option(1);
  sub->add_option("--system", run.system, "a system message before the prompt");
  sub->add_flag("--raw", run.raw, "the prompt as it is, without the chat template");
  add_format(*sub, run.json);
  add_sampling(*sub, run.sampling);
  add_common(*sub, run.common);
  sub->footer("Example: colibri run models/colibri-tiny --prompt \"Spell the word bird.\" --temperature 0");

  ChatOptions chat;
  sub = command("chat", "a conversation in the terminal", chat, chat_command);
  add_model(*sub, chat.model);
  sub->add_option("--system", chat.system, "a system message before the conversation");
  add_sampling(*sub, chat.sampling);
  add_common(*sub, chat.common);
  sub->footer("In the conversation: /new starts again, /quit or end of input leaves, Ctrl-C stops an answer.");

  ServeOptions serve;
  sub = command("serve", "an OpenAI-compatible HTTP server", serve, serve_command);
  sub->add_option("MODEL", serve.models, std::string("[NAME=]MODEL: ") + kModelHelp)
      ->envname("COLIBRI_MODELS")
      ->delimiter(',')
      ->required();
  sub->add_option("--host", serve.host, "address to listen on")->capture_default_str();
  sub->add_option("--port", serve.port, "port to listen on; 0 takes a free one and prints it")
      ->check(CLI::Range(0, 65535))
      ->capture_default_str();
  sub->add_option("--served-model-name", serve.served_model_name,
                  "the name clients use; the directory's name by default");
  sub->add_option("--max-batch", serve.max_batch, "conversations computed at once")
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  add_common(*sub, serve.common);
  sub->footer(
      "Example: colibri serve tiny=models/colibri-tiny --port 8000\n"
      "  curl localhost:8000/v1/chat/completions -H 'Content-Type: application/json' \\\n"
      "    -d '{\"model\":\"tiny\",\"messages\":[{\"role\":\"user\",\"content\":\"Who are you?\"}]}'");

  LogitsOptions logits;
  sub = command("logits", "write the logits of every position to a file", logits, logits_command);
  add_model(*sub, logits.model);
  sub->add_option("--ids", logits.ids, "token ids, as 1,2,3")->required();
  sub->add_option("--out", logits.out, "a .safetensors file; tensor \"logits\", F32 [n, vocab]")->required();
  add_common(*sub, logits.common);

  TokenizeOptions tokenize;
  sub = command("tokenize", "text to token ids", tokenize, tokenize_command);
  add_model(*sub, tokenize.model);
  source = sub->add_option_group("input", "one of");
  source->add_option("--text", tokenize.text, "the text");
  source->add_option("--file", tokenize.file, "a file with the text; - is standard input");
  source->require_option(1);
  sub->add_flag("--special", tokenize.special, "let special tokens match in the text");
  add_format(*sub, tokenize.json);

  DetokenizeOptions detokenize;
  sub = command("detokenize", "token ids to text", detokenize, detokenize_command);
  add_model(*sub, detokenize.model);
  sub->add_option("--ids", detokenize.ids, "token ids, as 1,2,3")->required();

  TemplateOptions chat_template;
  sub = command("template", "render a conversation with the model's chat template", chat_template, template_command);
  add_model(*sub, chat_template.model);
  sub->add_option("--messages", chat_template.messages, "a JSON file with the template's variables")
      ->required()
      ->type_name("FILE");
  sub->add_option("--now", chat_template.now, "the time that strftime_now sees, as 2026-01-02T03:04:05");

  PerplexityOptions perplexity;
  sub = command("perplexity", "how well the model predicts a text", perplexity, perplexity_command);
  add_model(*sub, perplexity.model);
  sub->add_option("FILE", perplexity.file, "a text file")->required();
  sub->add_option("--window", perplexity.window, "tokens of one window; windows do not overlap")
      ->check(CLI::Range(2, 1 << 24))
      ->capture_default_str();
  add_format(*sub, perplexity.json);
  add_common(*sub, perplexity.common);

  InspectOptions inspect;
  sub = command("inspect", "what a checkpoint is and what it needs, without loading it", inspect, inspect_command);
  sub->add_option("MODEL", inspect.model, std::string(kModelHelp) + ", or a config.json")->required();
  add_format(*sub, inspect.json);

  BenchOptions bench;
  sub = command("bench", "measure speed beside the machine's limit", bench, bench_command);
  source = sub->add_option_group("model", "one of");
  source->add_option("MODEL", bench.model, kModelHelp);
  source->add_option("--synthetic", bench.synthetic, "random weights of a published shape: " + synthetic_shape_names());
  source->require_option(1);
  sub->add_option("--layers", bench.layers, "cut the synthetic shape to this many layers")->check(CLI::Range(0, 4096));
  sub->add_option("--vocab", bench.vocab, "cut the synthetic shape to this vocabulary")->check(CLI::Range(0, 1 << 24));
  sub->add_option("--batch", bench.batch, "sequences at once, as 1,8")
      ->delimiter(',')
      ->check(CLI::Range(1, 4096))
      ->capture_default_str();
  sub->add_option("--prompt", bench.prompt, "tokens of each prompt")
      ->check(CLI::Range(1, 1 << 24))
      ->capture_default_str();
  sub->add_option("--gen", bench.gen, "tokens generated for each")
      ->check(CLI::Range(1, 1 << 20))
      ->capture_default_str();
  sub->add_option("--router", bench.router, "uniform (as the weights route) or zipf:S (skewed by force)")
      ->capture_default_str();
  add_format(*sub, bench.json);
  add_common(*sub, bench.common);
  sub->footer("Example: colibri bench models/colibri-tiny --batch 1,8 --prompt 512 --gen 64");

  std::vector<std::string> arguments(argv + 1, argv + argc);
  if (means_serve(arguments)) arguments.insert(arguments.begin(), "serve");
  try {
    const auto named =
        app.get_subcommands([&](CLI::App* each) { return !arguments.empty() && each->get_name() == arguments[0]; });
    if (named.empty() && !arguments.empty() && !arguments[0].starts_with('-'))
      throw CLI::ParseError("there is no command '" + arguments[0] + "'", CLI::ExitCodes::ExtrasError);
    for (CLI::App* each : named) add_environment(*each);
    if (const std::string path = config_path(arguments); !named.empty() && !path.empty()) {
      if (const Status status = take_config(*named[0], path); !status.ok()) return fail(status);
    }
    std::reverse(arguments.begin(), arguments.end());  // CLI11 takes them from the back
    app.parse(arguments);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    const auto commands = app.get_subcommands();
    print_error(std::string(error.what()) + "; try 'colibri " +
                (commands.empty() ? "" : commands[0]->get_name() + " ") + "--help'");
    return static_cast<int>(Exit::usage);
  }
  if (!action) {
    std::fputs(app.help().c_str(), stderr);
    return static_cast<int>(Exit::usage);
  }
  if (const Status status = action(); !status.ok()) return fail(status);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    print_error("standard output: not all of the answer could be written");
    return static_cast<int>(Exit::io);
  }
  return 0;
}

}  // namespace colibri
