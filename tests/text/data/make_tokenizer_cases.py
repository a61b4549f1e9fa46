# SPDX-License-Identifier: Apache-2.0
# Trains small tokenizers in the configurations that published models use, and stores what the `tokenizers` package
# (0.23.3) makes of the texts in tokenizers/texts.json: tokenizers/<kind>.json. Run in this folder; the result is
# deterministic.
#
# Kinds that differ in their rules alone share a vocabulary (bytes.json, pieces.json), trained on whole texts: its
# words reach across every rule's borders, so that a border in the wrong place shows in the ids.
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

with open("tokenizers/texts.json", encoding="utf-8") as file:
    TEXTS = json.load(file)

# Added tokens are no words: merges that made them would not be ours (text/bpe.h).
TRAINING = CORPUS + [text for text in TEXTS if not any(part in text for part in ("s>", "|>", "mask", "<BIG>"))]

GPT4 = (  # Llama-3, GLM-4, LFM2
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+"
    r"|\s+(?!\S)|\s+"
)
QWEN2 = GPT4.replace(r"\p{N}{1,3}", r"\p{N}")  # Qwen2, Qwen3, dots1, Hunyuan
QWEN3_5 = QWEN2.replace(r"?\p{L}+", r"?[\p{L}\p{M}]+").replace(r"[^\s\p{L}\p{N}]", r"[^\s\p{L}\p{M}\p{N}]")
CL100K = (
    r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)" r"|\s+"
)
GPT4O = (  # o200k: gpt-oss, MiniMax-M2
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
KIMI_K2 = r"[\p{Han}]+|" + GPT4O.replace(r"\p{M}]", r"\p{M}&&[^\p{Han}]]").replace("/]*", "]*")
DEEPSEEK_V3 = (
    r"[!\"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"
    r"| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
DEEPSEEK_V3_CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"

Split, Sequence, ByteLevel = pre_tokenizers.Split, pre_tokenizers.Sequence, pre_tokenizers.ByteLevel
LETTERS = ByteLevel.alphabet()
ASCII = [line.encode("ascii", "ignore").decode() for line in CORPUS]  # all other characters are unknown
SPECIALS = ["<s>", "</s>", "<|end|>"]
UNKNOWN = ["<unk>", "<s>", "</s>"]


def trained(model, pre_tokenizer, vocab_size, specials=UNKNOWN, corpus=CORPUS, normalizer=None, **more):
    tokenizer = Tokenizer(model)
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    trainer = trainers.BpeTrainer(vocab_size=vocab_size, special_tokens=specials, show_progress=False, **more)
    tokenizer.train_from_iterator(corpus, trainer)
    return tokenizer


def model_of(tokenizer):
    return json.loads(tokenizer.to_str())["model"]


def shared_bytes():
    words = trained(
        BPE(), ByteLevel(False, use_regex=False), 1800, SPECIALS, TRAINING, initial_alphabet=LETTERS, max_token_length=8
    )
    model = model_of(words)
    for word in ["tokenizer", "\u0120tokenizers", "\u0120camelCaseHTTPServer"]:  # no merge makes them: for ignore_merges
        model["vocab"][word] = len(model["vocab"])
    return model


def shared_pieces():
    """A SentencePiece vocabulary as it is converted: byte tokens, blanks as U+2581; what is past U+3000 is unknown."""
    corpus = [text.replace(" ", "\u2581") for text in TRAINING]
    words = model_of(trained(BPE(), None, 1800, UNKNOWN, corpus, max_token_length=8))
    vocab = {token: i for i, token in enumerate(UNKNOWN + [f"<0x{b:02X}>" for b in range(256)])}
    for token in words["vocab"]:
        if ord(max(token)) < 0x3000 and token.isprintable():
            vocab.setdefault(token, len(vocab))
    merges = [merge for merge in words["merges"] if all(part in vocab for part in (*merge, "".join(merge)))]
    return {"vocab": vocab, "merges": merges}


SHARED = {"bytes": shared_bytes(), "pieces": shared_pieces()}


def bpe(shared, **options):
    return BPE(SHARED[shared]["vocab"], [tuple(merge) for merge in SHARED[shared]["merges"]], **options)


def byte_level(pre_tokenizer, normalizer=None, **options):
    tokenizer = Tokenizer(bpe("bytes", **options))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.add_tokens([AddedToken("<|think|>", special=False, normalized=False)])
    return tokenizer


def split_rule(pattern, **more):
    return byte_level(Sequence([Split(Regex(pattern), "isolated"), ByteLevel(False, use_regex=False)]), **more)


def template(tokenizer, single):
    return processors.TemplateProcessing(
        single=single, special_tokens=[(token, tokenizer.token_to_id(token)) for token in ("<s>", "</s>")]
    )


def gpt2():
    return byte_level(ByteLevel(add_prefix_space=False, use_regex=True))


def granite():
    return byte_level(Sequence([pre_tokenizers.Digits(individual_digits=True), ByteLevel(False, use_regex=True)]))


def olmoe():
    """GPT-NeoX: runs of blanks are tokens, looked for after the normalizer."""
    tokenizer = byte_level(ByteLevel(add_prefix_space=False, use_regex=True), normalizer=normalizers.NFC())
    tokenizer.add_tokens([AddedToken(" " * n, normalized=True) for n in range(24, 1, -1)])
    tokenizer.post_processor = template(tokenizer, "$A </s>")
    return tokenizer


def qwen2():
    return split_rule(QWEN2, normalizer=normalizers.NFC())


def qwen3_5():
    return split_rule(QWEN3_5, normalizer=normalizers.NFC())


def llama3():
    tokenizer = split_rule(GPT4, ignore_merges=True)
    tokenizer.post_processor = processors.Sequence([processors.ByteLevel(), template(tokenizer, "<s> $A")])
    return tokenizer


def cl100k():
    return byte_level(Sequence([Split(Regex(CL100K), "removed", invert=True), ByteLevel(False, use_regex=False)]))


def gpt4o():
    return split_rule(GPT4O)


def kimi_k2():
    return split_rule(KIMI_K2)


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
    rules = [r"\p{N}{1,3}", DEEPSEEK_V3_CJK, DEEPSEEK_V3]
    return byte_level(
        Sequence([Split(Regex(rule), "isolated") for rule in rules] + [ByteLevel(False, use_regex=False)])
    )


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


def pieces(bos=True, strip=True):
    tokenizer = Tokenizer(bpe("pieces", unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.add_special_tokens(UNKNOWN)
    steps = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
    tokenizer.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * strip)
    if bos:
        tokenizer.post_processor = template(tokenizer, "<s> $A")
    return tokenizer


def mixtral():
    tokenizer = pieces()
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    return tokenizer


def llama2():
    """As newer conversions have it; and Phi-3.5's tokens, which take the blanks behind them."""
    tokenizer = pieces()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tokenizer.add_special_tokens([AddedToken("<|end|>", rstrip=True), AddedToken("<|think|>", rstrip=True)])
    return tokenizer


def replaced_blanks():
    tokenizer = pieces(bos=False, strip=False)
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    return tokenizer


def metaspace_first():
    tokenizer = trained(BPE(unk_token="<unk>"), pre_tokenizers.Metaspace(prepend_scheme="first"), 450)
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="first")
    tokenizer.add_tokens([AddedToken("<mask>", normalized=True, lstrip=True, special=True)])
    return tokenizer


def words():
    """Words with an end mark (put in by hand: the trainer's order of marked characters is not fixed), and unknown
    characters one by one."""
    split = Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.Punctuation()])
    tokenizer = trained(BPE(unk_token="<unk>"), split, 250, corpus=ASCII, normalizer=normalizers.NFD())
    model = model_of(tokenizer)
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
    model, split = BPE(unk_token="<unk>", fuse_unk=True), pre_tokenizers.WhitespaceSplit()
    return trained(model, split, 300, corpus=ASCII, normalizer=normalizers.NFKD())


KINDS = (
    gpt2,
    granite,
    olmoe,
    qwen2,
    qwen3_5,
    llama3,
    cl100k,
    gpt4o,
    kimi_k2,
    deepseek_v2,
    deepseek_v3,
    splits,
    added,
    mixtral,
    llama2,
    replaced_blanks,
    metaspace_first,
    words,
    prefixed,
    fused_unknown,
)


def cases(tokenizer):
    """One per text: its ids, those of it as plain text where they differ, and for a few texts also with special tokens,
    which depend on the ids alone."""
    found = []
    for text in TEXTS:
        tokenizer.encode_special_tokens = True
        plain = tokenizer.encode(text, add_special_tokens=False).ids
        tokenizer.encode_special_tokens = False
        case = {"ids": tokenizer.encode(text, add_special_tokens=False).ids}
        if plain != case["ids"]:
            case["plain"] = plain
        if len(found) < 10:
            case["with_special"] = tokenizer.encode(text).ids
        found.append(case)
    return found


def decoded(tokenizer, ids, text=None):
    """What ids decode to with and without special tokens, where that is not the text. Left out is what Colibri defines
    otherwise: runs of byte tokens that are no UTF-8 (text/decoder.h), and an added token whose normal form differs,
    which decodes to its own text."""
    both = {"text": tokenizer.decode(ids), "all": tokenizer.decode(ids, skip_special_tokens=False)}
    fallback = tokenizer.token_to_id("<0x00>") is not None
    if tokenizer.token_to_id("<BIG>") in ids or (fallback and "\ufffd" in both["all"]):
        return {"not_decoded": True}
    return {key: value for key, value in both.items() if value != text}


# Characters that regular expressions see differently from library to library, and patterns over them.
SAMPLE = (
    "aAzZe\u030109_-+$ \t\n\v\f\r\x7f\x85\xa0\xaa\xb2\xb5\xb9\xbc\xbe\u01c5\u02b0\u0345\u0430\u05b0\u0660\u09be\u09f4\u0e01"
    "\u180e\u2003\u200b\u200c\u200d\u2028\u203f\u2070\u20ac\u2167\u2171\u24b6\u24d0\u2e80\u3001\u3005\u3006\u3007\u300c\u3021\u3042\u30a2"
    "\u30fb\u30fc\u3220\u3400\u4e2d\uac00\uf900\ufe0f\uff21\uff65\U0001f600\U0001f1e9\U0001fae8\U0001fa77\U00020000\U00031350\U00013460"
    "na\xefve x^x\xb2y e\u0301a don't"
)
PATTERNS = r"""\s \S \w \W \d \D \h \H \v . \b. .\B \b\w+\b \B\w \p{L} \P{L} \p{^L} \p{N} \p{M} \p{P} \p{S} \p{Lu} \p{Lt} \p{Lm}
\p{Lo} \p{Han} \P{Han} \p{Hiragana} \p{Katakana} \p{Latin} \p{Alphabetic} \u3042 [\u3001-\u3007] [\s\w] [^\s\w] [\S] [^\S]
[[:alnum:]] [[:alpha:]] [[:blank:]] [[:digit:]] [[:lower:]] [[:punct:]] [[:space:]] [[:upper:]] [[:xdigit:]] [^[:alpha:]]
[\p{L}\p{M}&&[^\p{Han}]] [\p{L}&&\p{Latin}&&[^A-Z]]+ [a-z&&[^aeiou]]+ [a-z^&&^x]+ [^^a-z]+ [\p{S}\P{Lu}] []a] [^]a] a{,2}9? (?i:[a-e])""".split()


def matches(pattern):
    pieces = Split(Regex(pattern), "removed", invert=True).pre_tokenize_str(SAMPLE)
    return [piece for piece, _ in pieces]


def store(name, document):
    with open(f"tokenizers/{name}.json", "w", encoding="utf-8") as file:
        json.dump(document, file, ensure_ascii=False, separators=(",", ":"))
        file.write("\n")


def main():
    for name, model in SHARED.items():
        # Merges as one string each, as older files have them.
        store(name, {"vocab": model["vocab"], "merges": [" ".join(merge) for merge in model["merges"]]})
    store("patterns", {"text": SAMPLE, "matches": {pattern: matches(pattern) for pattern in PATTERNS}})
    for make in KINDS:
        random.seed(1)
        tokenizer = make()
        config = json.loads(tokenizer.to_str())
        tokenizer = Tokenizer.from_str(json.dumps(config))
        for name, model in SHARED.items():
            if config["model"]["vocab"] == model["vocab"]:
                config["model"] |= {"vocab": name, "merges": name}
        document = {"tokenizer": config, "cases": cases(tokenizer)}
        if config["decoder"]:
            for case, text in zip(document["cases"], TEXTS):
                case |= decoded(tokenizer, case["ids"], text)
            size = tokenizer.get_vocab_size()
            sequences = [[random.randrange(size) for _ in range(random.randint(1, 12))] for _ in range(60)]
            document["decoded"] = [{"ids": ids} | decoded(tokenizer, ids) for ids in sequences]
        store(make.__name__, document)


if __name__ == "__main__":
    main()
