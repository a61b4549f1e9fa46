# SPDX-License-Identifier: Apache-2.0
# Trains tiny tokenizers in the configurations that published models use, and stores what the `tokenizers` package
# (0.23.3) makes of tricky texts: tests/text/data/tokenizers/*.json. Run in this folder; the result is deterministic.
import json
import random

from tokenizers import AddedToken, Regex, Tokenizer, decoders, normalizers, pre_tokenizers, processors, trainers
from tokenizers.models import BPE

CORPUS = """The quick brown fox jumps over the lazy dog. A hummingbird weighs less than a coin, and it's never still.
for (int i = 0; i < n; ++i) { total += values[i]; }    return total;  // 12345 of 67890, 3.14159
Don't you'll we've I'm THEY'RE state-of-the-art e-mail: someone@example.org, 2024-05-17, 100% sure!? (yes) [no]
naïve café Zürich Ångström, déjà vu; Привет мир, как дела; Ελληνικά γράμματα; 你好，世界。日本語のテスト 한국어 문장
The experts of a layer are chosen by a router; tokens wait for the slowest expert, and the slowest expert waits.
def main(args):\n\tprint("hello, world")\n\n\treturn 0\n
""".splitlines() * 4

TEXTS = [
    "",
    " ",
    "  ",
    "   a",
    "a   ",
    "\n",
    "\n\n  \n",
    "\t\tx",
    "hello world",
    " hello  world ",
    "Hello, World!",
    "don't WON'T I'll they'RE \u017fs 'S",
    "12345 3.14159 1e-9 \u00bd\u2167 \u0663\u0664\u0665",
    "1234567890123",
    "na\u00efve cafe\u0301 \u212b \ufb01 \uff21",
    "\u4f60\u597d\uff0c\u4e16\u754c",
    "\u65e5\u672c\u8a9e\u30c6\u30b9\u30c8",
    "\ud55c\uad6d\uc5b4",
    "\U0001f642\U0001f680\U0001f468\u200d\U0001f469",
    "\U0001fae0",
    "\u0627\u0644\u0639\u0631",
    "\u0939\u093f\u0928\u094d\u0926\u0940",
    "a\u0300\u0301\u0302b \u0323\u0307",
    "\u00a0nbsp\u2003em\u3000wide\u180e\u0085x",
    "x-y--z...!? (a)[b]{c} $5 \u20ac6 \u00a7 \u00ab\u00bb",
    "line\r\nnext\rlast\n",
    "\x00\x01\x7f\u0080",
    "\ufeff\ufffd\u200b",
    "<s>",
    "</s> <s>a<s>",
    "<|end|>",
    "a<|end|>b",
    " <|end|> ",
    "<|end",
    "<|think|>x<|think|>",
    "the mask <mask> here",
    "<mask><mask>",
    "  <mask>  ",
    "unmasked mask masks mask",
    "NORM norm <NoRm> x<norm> <BIG><big>",
    "\u2581\u2581a \u2581b",
    "e-mail state-of-the-art",
    "AAAAbbbbAAAA",
    "for (int i = 0; i < n; ++i) {",
    "ABCdefGHI jkL MNo",
    "the" * 40,
    "tokenizer tokenizers",
    "the her there hethe ththe",
    "\u0130\u0131 STRASSE stra\u00dfe",
]

GPT4 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)" r"|\s+"
)
GPT4O = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_V3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_V3_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"

Split, Sequence, ByteLevel = pre_tokenizers.Split, pre_tokenizers.Sequence, pre_tokenizers.ByteLevel
LETTERS = ByteLevel.alphabet()
ASCII = [line.encode("ascii", "ignore").decode() for line in CORPUS]  # all other characters are unknown


def trained(
    model,
    pre_tokenizer,
    vocab_size,
    alphabet=(),
    normalizer=None,
    specials=("<s>", "</s>", "<|end|>"),
    corpus=CORPUS,
    **more,
):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.train_from_iterator(
        corpus,
        trainers.BpeTrainer(
            vocab_size=vocab_size,
            initial_alphabet=list(alphabet),
            special_tokens=list(specials),
            show_progress=False,
            **more,
        ),
    )
    return tokenizer


def byte_level(pre_tokenizer, **more):
    tokenizer = trained(BPE(), pre_tokenizer, 700, LETTERS, **more)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_tokens([AddedToken("<|think|>", special=False, normalized=False)])
    return tokenizer


def with_bos(tokenizer):
    return processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A $B", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )


def gpt2():
    tokenizer = byte_level(ByteLevel(add_prefix_space=False, use_regex=True))
    tokenizer.post_processor = processors.ByteLevel()
    config = json.loads(tokenizer.to_str())
    config["model"]["merges"] = [" ".join(merge) for merge in config["model"]["merges"]]  # as older files have it
    return config


def llama3():
    tokenizer = byte_level(Sequence([Split(Regex(GPT4), "isolated"), ByteLevel(False, use_regex=False)]))
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), with_bos(tokenizer)])
    config = json.loads(tokenizer.to_str())
    config["model"]["ignore_merges"] = True
    model, size = config["model"], len(config["model"]["vocab"])
    for i, word in enumerate(["tokenizer", "\u0120hello", "AAAA"]):  # words that no merge makes
        model["vocab"][word] = size + i
    for token in config["added_tokens"]:
        if token["content"] == "<|think|>":
            token["id"] = size + 3
    return config


def cl100k():
    return byte_level(Sequence([Split(Regex(CL100K), "removed", invert=True), ByteLevel(False, use_regex=False)]))


def gpt4o():
    return byte_level(Sequence([Split(Regex(GPT4O), "isolated"), ByteLevel(False, use_regex=False)]))


def deepseek_v2():
    parts = [
        Split(Regex("[\r\n]"), "isolated"),
        Split(Regex(r"\s?\p{L}+"), "isolated"),
        Split(Regex(r"\s?\p{P}+"), "isolated"),
        Split(Regex("[\u4e00-\u9fa5\u0800-\u4e00\uac00-\ud7ff]+"), "isolated"),
        pre_tokenizers.Digits(individual_digits=True),
        ByteLevel(False, use_regex=False),
    ]
    tokenizer = byte_level(Sequence(parts))
    tokenizer.add_special_tokens(["<\uff5cend\u2581of\u2581sentence\uff5c>"])
    return tokenizer


def deepseek_v3():
    return byte_level(
        Sequence(
            [
                Split(Regex(r"\p{N}{1,3}"), "isolated"),
                Split(Regex(DEEPSEEK_V3_CJK), "isolated"),
                Split(Regex(DEEPSEEK_V3), "isolated"),
                ByteLevel(False, use_regex=False),
            ]
        )
    )


def mixtral():
    """A SentencePiece vocabulary as it is converted: no pre-tokenizer, byte tokens, all text one word."""
    words = trained(BPE(), pre_tokenizers.Metaspace(), 520, specials=("<unk>", "<s>", "</s>"))
    source = json.loads(words.to_str())
    vocab = {token: i for i, token in enumerate(["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)])}
    for token in source["model"]["vocab"]:
        if ord(max(token)) < 0x3000:  # let the rest fall back to bytes
            vocab.setdefault(token, len(vocab))
    merges = [tuple(m) for m in source["model"]["merges"] if all(part in vocab for part in (*m, "".join(m)))]
    tokenizer = Tokenizer(BPE(vocab, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.add_special_tokens(["<unk>", "<s>", "</s>"])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = with_bos(tokenizer)
    return tokenizer


def metaspace_first():
    tokenizer = trained(
        BPE(unk_token="<unk>"), pre_tokenizers.Metaspace(prepend_scheme="first"), 450, specials=("<unk>", "<s>", "</s>")
    )
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    tokenizer.add_tokens([AddedToken("<mask>", normalized=True, lstrip=True, special=True)])
    return tokenizer


def added():
    normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.Lowercase(), normalizers.Strip(left=False)])
    tokenizer = byte_level(ByteLevel(add_prefix_space=True), normalizer=normalizer)
    tokenizer.add_special_tokens(
        [AddedToken("<mask>", lstrip=True, rstrip=True), AddedToken("mask", single_word=True, normalized=False)]
    )
    tokenizer.add_tokens(
        [
            AddedToken("<norm>", normalized=True, special=False),
            AddedToken("\t\t", normalized=False),
            AddedToken("aaaa", normalized=True, rstrip=True),
            AddedToken("<BIG>", normalized=True),
        ]
    )
    return tokenizer


def splits():
    """Every behaviour of Split, on delimiters alone and in rows."""
    return byte_level(
        Sequence(
            [
                Split("-", "merged_with_previous"),
                Split(Regex("[.!?]"), "merged_with_next"),
                Split(Regex("[a-c]"), "contiguous"),
                Split(Regex("[A-Z]+"), "merged_with_next", invert=True),
                Split("the", "removed"),
                pre_tokenizers.Punctuation("merged_with_previous"),
                pre_tokenizers.Digits(),
                ByteLevel(False, use_regex=False),
            ]
        )
    )


def words():
    """Words with an end mark (put in by hand: the trainer's order of marked characters is not fixed), and unknown
    characters one by one."""
    tokenizer = trained(
        BPE(unk_token="<unk>"),
        Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()]),
        250,
        corpus=ASCII,
        normalizer=normalizers.NFD(),
        specials=("<unk>", "<s>", "</s>"),
    )
    model = json.loads(tokenizer.to_str())["model"]
    vocab = dict(model["vocab"])
    for token in list(vocab)[3:]:
        vocab[token + "</w>"] = len(vocab)
    merges = [pair for a, b in model["merges"] for pair in ((a, b + "</w>"), (a, b))]
    tokenizer.model = BPE(vocab, merges, unk_token="<unk>", end_of_word_suffix="</w>")
    return tokenizer


def prefixed():
    """continuing_subword_prefix, by hand as well."""
    tokens = ["<unk>", "t", "h", "e", "##h", "##e", "##t", "##r", "th", "the", "##he", "##er", "he", "her", "##the"]
    merges = [("t", "##h"), ("th", "##e"), ("h", "##e"), ("he", "##r"), ("##h", "##e"), ("##t", "##he")]
    tokenizer = Tokenizer(
        BPE({token: i for i, token in enumerate(tokens)}, merges, unk_token="<unk>", continuing_subword_prefix="##")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return tokenizer


def fused_unknown():
    return trained(
        BPE(unk_token="<unk>", fuse_unk=True),
        pre_tokenizers.WhitespaceSplit(),
        300,
        normalizer=normalizers.NFKD(),
        specials=("<unk>", "<s>", "</s>"),
        corpus=ASCII,
    )


def cases(tokenizer, texts):
    found = []
    for text in texts:
        tokenizer.encode_special_tokens = False
        case = {
            "text": text,
            "ids": tokenizer.encode(text, add_special_tokens=False).ids,
            "with_special": tokenizer.encode(text).ids,
        }
        tokenizer.encode_special_tokens = True
        case["plain"] = tokenizer.encode(text, add_special_tokens=False).ids
        found.append(case)
    return found


def decoded(tokenizer, sequences):
    """What ids decode to. Left out is what Colibri defines otherwise: runs of byte tokens that are no UTF-8
    (text/decoder.h), and an added token whose normal form differs, which decodes to its own text."""
    fallback = tokenizer.token_to_id("<0x00>") is not None
    big = tokenizer.token_to_id("<BIG>")
    found = [
        {"ids": ids, "text": tokenizer.decode(ids), "all": tokenizer.decode(ids, skip_special_tokens=False)}
        for ids in sequences
        if big not in ids
    ]
    return [case for case in found if not (fallback and "\ufffd" in case["all"])]


def main():
    for make in (
        gpt2,
        llama3,
        cl100k,
        gpt4o,
        deepseek_v2,
        deepseek_v3,
        mixtral,
        metaspace_first,
        added,
        splits,
        words,
        prefixed,
        fused_unknown,
    ):
        random.seed(1)
        made = make()
        config = made if isinstance(made, dict) else json.loads(made.to_str())
        tokenizer = Tokenizer.from_str(json.dumps(config))
        document = {"tokenizer": config, "cases": cases(tokenizer, TEXTS)}
        if config["decoder"]:
            sequences = [case["ids"] for case in document["cases"]]
            size = tokenizer.get_vocab_size()
            sequences += [[random.randrange(size) for _ in range(random.randint(1, 12))] for _ in range(40)]
            document["decoded"] = decoded(tokenizer, sequences)
        with open(f"tokenizers/{make.__name__}.json", "w", encoding="utf-8") as file:
            json.dump(document, file, ensure_ascii=False, separators=(",", ":"))
            file.write("\n")


main()
