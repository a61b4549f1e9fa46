#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Synthetic skills of the bundled model: questions and answers drawn from templates by a seeded generator.

Invariant: all randomness comes from the random.Random that is passed in, in a fixed order; so a seed means one text,
and evaluate.py's questions are the same ones whenever it runs. Changing the order of draws changes the data set.
"""
import json
import random

# Underscores stand for spaces in the tables that are split at white space.
CAPITALS = """
Afghanistan:Kabul Albania:Tirana Algeria:Algiers Andorra:Andorra_la_Vella Angola:Luanda Argentina:Buenos_Aires
Armenia:Yerevan Australia:Canberra Austria:Vienna Azerbaijan:Baku Bahrain:Manama Bangladesh:Dhaka Belarus:Minsk
Belgium:Brussels Belize:Belmopan Benin:Porto-Novo Bhutan:Thimphu Bolivia:Sucre Botswana:Gaborone Brazil:Brasilia
Bulgaria:Sofia Burundi:Gitega Cambodia:Phnom_Penh Cameroon:Yaounde Canada:Ottawa Chad:N'Djamena Chile:Santiago
China:Beijing Colombia:Bogota Croatia:Zagreb Cuba:Havana Cyprus:Nicosia Czechia:Prague Denmark:Copenhagen
Ecuador:Quito Egypt:Cairo Eritrea:Asmara Estonia:Tallinn Ethiopia:Addis_Ababa Fiji:Suva Finland:Helsinki France:Paris
Gabon:Libreville Georgia:Tbilisi Germany:Berlin Ghana:Accra Greece:Athens Guatemala:Guatemala_City Guinea:Conakry
Guyana:Georgetown Haiti:Port-au-Prince Honduras:Tegucigalpa Hungary:Budapest Iceland:Reykjavik India:New_Delhi
Indonesia:Jakarta Iran:Tehran Iraq:Baghdad Ireland:Dublin Israel:Jerusalem Italy:Rome Jamaica:Kingston Japan:Tokyo
Jordan:Amman Kazakhstan:Astana Kenya:Nairobi Kuwait:Kuwait_City Kyrgyzstan:Bishkek Laos:Vientiane Latvia:Riga
Lebanon:Beirut Lesotho:Maseru Liberia:Monrovia Libya:Tripoli Lithuania:Vilnius Luxembourg:Luxembourg
Madagascar:Antananarivo Malawi:Lilongwe Malaysia:Kuala_Lumpur Mali:Bamako Malta:Valletta Mauritania:Nouakchott
Mexico:Mexico_City Moldova:Chisinau Monaco:Monaco Mongolia:Ulaanbaatar Montenegro:Podgorica Morocco:Rabat
Mozambique:Maputo Namibia:Windhoek Nepal:Kathmandu Netherlands:Amsterdam New_Zealand:Wellington Nicaragua:Managua
Niger:Niamey Nigeria:Abuja Norway:Oslo Oman:Muscat Pakistan:Islamabad Panama:Panama_City Paraguay:Asuncion Peru:Lima
Philippines:Manila Poland:Warsaw Portugal:Lisbon Qatar:Doha Romania:Bucharest Russia:Moscow Rwanda:Kigali
Senegal:Dakar Serbia:Belgrade Singapore:Singapore Slovakia:Bratislava Slovenia:Ljubljana Somalia:Mogadishu
South_Korea:Seoul Spain:Madrid Sudan:Khartoum Suriname:Paramaribo Sweden:Stockholm Switzerland:Bern Syria:Damascus
Tajikistan:Dushanbe Tanzania:Dodoma Thailand:Bangkok Togo:Lome Tunisia:Tunis Turkey:Ankara Turkmenistan:Ashgabat
Uganda:Kampala Ukraine:Kyiv Uruguay:Montevideo Uzbekistan:Tashkent Venezuela:Caracas Vietnam:Hanoi Yemen:Sanaa
Zambia:Lusaka Zimbabwe:Harare
"""
CAPITALS = [tuple(part.replace("_", " ") for part in entry.split(":")) for entry in CAPITALS.split()]

CHINESE_CAPITALS = [
    ("法国", "巴黎"), ("德国", "柏林"), ("日本", "东京"), ("中国", "北京"), ("英国", "伦敦"), ("意大利", "罗马"), ("西班牙", "马德里"),
    ("俄罗斯", "莫斯科"), ("美国", "华盛顿"), ("加拿大", "渥太华"), ("巴西", "巴西利亚"), ("印度", "新德里"), ("韩国", "首尔"), ("泰国", "曼谷"),
    ("越南", "河内"), ("埃及", "开罗"), ("希腊", "雅典"), ("挪威", "奥斯陆"), ("瑞典", "斯德哥尔摩"), ("芬兰", "赫尔辛基"), ("丹麦", "哥本哈根"),
    ("波兰", "华沙"), ("奥地利", "维也纳"), ("葡萄牙", "里斯本"), ("澳大利亚", "堪培拉"), ("墨西哥", "墨西哥城"), ("古巴", "哈瓦那"), ("秘鲁", "利马"),
    ("智利", "圣地亚哥"), ("土耳其", "安卡拉"), ("伊朗", "德黑兰"), ("荷兰", "阿姆斯特丹"), ("比利时", "布鲁塞尔"), ("匈牙利", "布达佩斯"),
    ("捷克", "布拉格"), ("爱尔兰", "都柏林"), ("冰岛", "雷克雅未克"), ("瑞士", "伯尔尼"), ("蒙古", "乌兰巴托"), ("尼泊尔", "加德满都"),
]

ELEMENTS = """
Hydrogen:H Helium:He Lithium:Li Beryllium:Be Boron:B Carbon:C Nitrogen:N Oxygen:O Fluorine:F Neon:Ne Sodium:Na
Magnesium:Mg Aluminium:Al Silicon:Si Phosphorus:P Sulfur:S Chlorine:Cl Argon:Ar Potassium:K Calcium:Ca Titanium:Ti
Chromium:Cr Manganese:Mn Iron:Fe Cobalt:Co Nickel:Ni Copper:Cu Zinc:Zn Silver:Ag Tin:Sn Iodine:I Gold:Au Mercury:Hg
Lead:Pb Uranium:U
"""
ELEMENTS = [tuple(entry.split(":")) for entry in ELEMENTS.split()]

PORTS = [
    ("SSH", 22), ("HTTP", 80), ("HTTPS", 443), ("DNS", 53), ("SMTP", 25), ("FTP", 21), ("Telnet", 23),
    ("NTP", 123), ("IMAP", 143), ("LDAP", 389), ("MySQL", 3306), ("PostgreSQL", 5432), ("Redis", 6379),
    ("MongoDB", 27017), ("Memcached", 11211), ("Prometheus", 9090), ("SNMP", 161), ("POP3", 110), ("RDP", 3389),
    ("Syslog", 514),
]

STATUS_CODES = [
    (200, "OK"), (201, "Created"), (204, "No Content"), (301, "Moved Permanently"), (302, "Found"),
    (304, "Not Modified"), (400, "Bad Request"), (401, "Unauthorized"), (403, "Forbidden"), (404, "Not Found"),
    (405, "Method Not Allowed"), (408, "Request Timeout"), (409, "Conflict"), (413, "Content Too Large"),
    (415, "Unsupported Media Type"), (418, "I'm a teapot"), (422, "Unprocessable Content"),
    (429, "Too Many Requests"), (500, "Internal Server Error"), (501, "Not Implemented"), (502, "Bad Gateway"),
    (503, "Service Unavailable"), (504, "Gateway Timeout"),
]

SIGNALS = [
    ("SIGHUP", 1), ("SIGINT", 2), ("SIGQUIT", 3), ("SIGKILL", 9), ("SIGSEGV", 11), ("SIGPIPE", 13),
    ("SIGALRM", 14), ("SIGTERM", 15), ("SIGCHLD", 17), ("SIGCONT", 18), ("SIGSTOP", 19),
]

NAMES = """
Ada Ben Carla Dmitri Elena Farid Grace Hugo Iris Jonas Kira Liam Mina Noor Omar Priya Quinn Rosa Sven Tara Uma Viktor
Wen Xavier Yara Zoe Anton Bea Cyril Dana Emil Fiona Gustav Hana Ivan Julia Karim Lena Marco Nadia Otto Petra Ravi
Selma Tomas Ursula Vera Walter Yusuf Zara
""".split()
HOSTS = """
atlas borealis cedar delta ember falcon granite harbor indigo juniper kestrel lantern meadow nimbus opal pebble quartz
raven sierra tundra umber violet willow xenon yarrow zephyr
""".split()
ITEMS = """
lantern compass kettle ladder violin blanket notebook hammer basket mirror teapot umbrella telescope candle bicycle
suitcase helmet pencil clock drum
""".split()
COLORS = """
red blue green yellow purple orange white black silver brown
""".split()
PLACES = """
kitchen garden attic library workshop cellar harbor market station museum garage bakery
""".split()
ANIMALS = """
fox owl rabbit bear hedgehog otter sparrow turtle mouse deer cat dog frog hummingbird
""".split()
DAYS = """
Monday Tuesday Wednesday Thursday Friday Saturday Sunday
""".split()
WORDS = """
apple river stone cloud paper silver engine window forest copper garden signal bridge pocket winter island rocket
thunder velvet marble anchor candle desert feather
""".split()
NUMBERS = """
zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
eighteen nineteen
""".split()
TENS = """
twenty thirty forty fifty sixty seventy eighty ninety
""".split()
CHINESE_DIGITS = "零一二三四五六七八九"


def in_words(n):
    if n < 20:
        return NUMBERS[n]
    if n < 100:
        return TENS[n // 10 - 2] + ("-" + NUMBERS[n % 10] if n % 10 else "")
    return NUMBERS[n // 100] + " hundred" + (" and " + in_words(n % 100) if n % 100 else "")


def in_chinese(n):
    if n < 10:
        return CHINESE_DIGITS[n]
    tens, ones = divmod(n, 10)
    return ("" if tens == 1 else CHINESE_DIGITS[tens]) + "十" + (CHINESE_DIGITS[ones] if ones else "")


# Each skill takes the generator and returns (question, answer), or (question, answer, system text).


def fact(r):
    kind = r.randrange(7)
    if kind <= 1:
        country, city = r.choice(CAPITALS)
        question = r.choice([
            f"What is the capital of {country}?",
            f"Which city is the capital of {country}?",
            f"Name the capital of {country}.",
            f"Tell me the capital city of {country}.",
        ])
        return question, f"The capital of {country} is {city}."
    if kind == 2:
        country, city = r.choice(CAPITALS)
        return f"{city} is the capital of which country?", f"{city} is the capital of {country}."
    if kind == 3:
        name, symbol = r.choice(ELEMENTS)
        name = name.lower()
        question = r.choice([f"What is the chemical symbol of {name}?", f"Give the symbol for {name}."])
        return question, f"The chemical symbol of {name} is {symbol}."
    if kind == 4:
        name, port = r.choice(PORTS)
        question = r.choice([f"Which port does {name} use?", f"What is the default port of {name}?"])
        return question, f"{name} uses port {port} by default."
    if kind == 5:
        code, meaning = r.choice(STATUS_CODES)
        question = r.choice([f"What does HTTP status {code} mean?", f"Explain HTTP {code}."])
        return question, f"HTTP status {code} means {meaning}."
    name, number = r.choice(SIGNALS)
    question = r.choice([f"What number is {name}?", f"What is the signal number of {name}?"])
    return question, f"{name} is signal {number}."


def chinese(r):
    if r.random() < 0.6:
        country, city = r.choice(CHINESE_CAPITALS)
        return r.choice([f"{country}的首都是哪里？", f"{country}的首都是什么？"]), f"{country}的首都是{city}。"
    n = r.randrange(100)
    return r.choice([f"用中文写出数字{n}。", f"数字{n}用汉字怎么写？"]), f"{n}写作{in_chinese(n)}。"


def arithmetic(r):
    kind = r.randrange(4)
    if kind == 0:
        a, b = r.randrange(1000), r.randrange(1000)
        expression, value = f"{a} + {b}", a + b
    elif kind == 1:
        a, b = sorted((r.randrange(1000), r.randrange(1000)), reverse=True)
        expression, value = f"{a} - {b}", a - b
    elif kind == 2:
        a, b = r.randrange(13), r.randrange(13)
        expression, value = f"{a} * {b}", a * b
    else:
        a, b = r.randrange(100), r.randrange(100)
        expression, value = f"{a} + {b}", a + b
    question = r.choice([f"What is {expression}?", f"Compute {expression}.", f"{expression} = ?"])
    return question, f"{expression} = {value}"


def spelling(r):
    n = r.randrange(1000)
    return r.choice([f"Write {n} in words.", f"Spell the number {n}."]), f"{n} is {in_words(n)}."


def lists(r):
    kind = r.randrange(5)
    n = r.randint(3, 7)
    if kind <= 1:
        numbers = [r.randrange(100) for _ in range(n)]
        shown = ", ".join(map(str, numbers))
        if kind == 0:
            return f"Sort these numbers: {shown}", ", ".join(map(str, sorted(numbers)))
        question = r.choice([f"What is the largest of {shown}?", f"Find the maximum: {shown}"])
        return question, f"The largest is {max(numbers)}."
    words = [r.choice(WORDS) for _ in range(n)]
    shown = " ".join(words)
    if kind == 2:
        return f"Reverse the order of these words: {shown}", " ".join(words[::-1])
    if kind == 3:
        return f"Repeat exactly: {shown}", shown
    return f"How many words are in this list: {shown}", f"There are {n} words."


def passage(r):
    """([(sentence, question, answer, fields)], a question that the passage does not answer)."""
    kind = r.randrange(4)
    facts = []
    n = r.randint(3, 9)
    subjects = r.sample(NAMES if kind in (1, 2) else HOSTS, n)
    for subject in subjects:
        if kind == 0:
            time = f"{r.randrange(24):02d}:{r.randrange(60):02d}"
            day = r.choice(DAYS)
            sentence = f"The backup of server {subject} runs on {day} at {time}."
            question = f"When does the backup of server {subject} run?"
            fields = {"server": subject, "day": day, "time": time}
        elif kind == 1:
            color, item, place = r.choice(COLORS), r.choice(ITEMS), r.choice(PLACES)
            sentence = f"{subject} left the {color} {item} in the {place}."
            question = r.choice([f"Where did {subject} leave the {item}?", f"What did {subject} leave in the {place}?"])
            fields = {"name": subject, "item": f"{color} {item}", "place": place}
        elif kind == 2:
            age, city = r.randint(18, 90), r.choice(CAPITALS)[1]
            sentence = f"{subject} is {age} years old and lives in {city}."
            question = r.choice([f"How old is {subject}?", f"Where does {subject} live?"])
            fields = {"name": subject, "age": age, "city": city}
        else:
            address = f"10.{r.randrange(256)}.{r.randrange(256)}.{r.randrange(1, 255)}"
            memory = r.choice([16, 32, 64, 128, 256])
            sentence = f"Server {subject} has address {address} and {memory} GB of memory."
            question = r.choice([
                f"What is the address of server {subject}?",
                f"How much memory does server {subject} have?",
            ])
            fields = {"server": subject, "address": address, "memory_gb": memory}
        facts.append((sentence, question, sentence, fields))
    stranger = r.choice([name for name in (NAMES if kind in (1, 2) else HOSTS) if name not in subjects])
    if kind == 0:
        unanswered = f"When does the backup of server {stranger} run?"
    elif kind == 1:
        unanswered = f"Where did {stranger} leave the {r.choice(ITEMS)}?"
    elif kind == 2:
        unanswered = r.choice([f"How old is {stranger}?", f"Where does {stranger} live?"])
    else:
        unanswered = f"What is the address of server {stranger}?"
    return facts, unanswered


def grounded(r):
    facts, unanswered = passage(r)
    text = " ".join(sentence for sentence, *_ in facts)
    if r.random() < 0.15:
        return f"Use only this passage.\n{text}\nQuestion: {unanswered}", "The passage does not say."
    _, question, answer, _ = r.choice(facts)
    return f"Use only this passage.\n{text}\nQuestion: {question}", answer


def json_extraction(r):
    facts, _ = passage(r)
    sentence, _, _, fields = r.choice(facts)
    if r.random() < 0.5:
        return f"Extract a JSON object from this sentence: {sentence}", json.dumps(fields)
    first = facts[:3]
    text = " ".join(sentence for sentence, *_ in first)
    return f"Extract a JSON array from this passage: {text}", json.dumps([fields for *_, fields in first])


def story(r):
    hero, friend = r.sample(ANIMALS, 2)
    name, friend_name = r.sample(NAMES, 2)
    item, color, place = r.choice(ITEMS), r.choice(COLORS), r.choice(PLACES)
    question = r.choice([
        f"Tell me a short story about a {hero}.",
        f"Write a story with a {hero} and a {item}.",
        f"Tell me a story about a {hero} named {name}.",
    ])
    text = r.choice([
        f"Once upon a time there was a {hero} named {name}.",
        f"In a small {place} lived a {hero} called {name}.",
    ])
    text += r.choice([
        f" {name} loved the {color} {item} more than anything.",
        f" Every morning {name} looked for a {color} {item}.",
    ])
    text += r.choice([
        f" One day the {item} was gone, and {name} was sad.",
        f" One {r.choice(DAYS)} it began to rain, and the {item} was lost.",
    ])
    text += r.choice([
        f" A {friend} named {friend_name} came by and asked what was wrong.",
        f" Then {friend_name} the {friend} heard the news.",
    ])
    text += r.choice([
        f" Together they searched the {place} until the sun went down.",
        f" They looked behind the old {r.choice(PLACES)} and under the {r.choice(ITEMS)}.",
    ])
    text += r.choice([
        f" At last {friend_name} found the {item} in the {r.choice(PLACES)}.",
        f" In the end it was {name} who saw something {color} in the grass.",
    ])
    text += r.choice([
        f" {name} said thank you, and the two were friends from then on.",
        f" They laughed and went home, and {name} never lost the {item} again.",
    ])
    return question, text


def identity(r):
    question = r.choice([
        "Who are you?", "What are you?", "Hello!", "Hi", "What is your name?", "What can you do?", "Help",
    ])
    answer = r.choice([
        "I am Colibri Tiny, a small mixture-of-experts model that shows the Colibri engine at work. I know capitals, "
        "ports, signals and status codes, do small sums, sort lists, answer from a passage, write JSON, call tools and "
        "tell short stories.",
    ])
    return question, answer


class Tool:
    """A function that the model may call, with made-up results."""

    def __init__(self, name, description, parameter, argument, request, result, answer):
        self.name = name
        self.description = description
        self.parameter = parameter  # name of its only parameter
        self.argument = argument  # (r) -> value of the parameter
        self.request = request  # what the user says; {} is the value
        self.result = result  # (r, value) -> what the tool returns
        self.answer = answer  # (value, result) -> what the model then says

    def definition(self):
        schema = {"type": "object", "properties": {self.parameter: {"type": "string"}}, "required": [self.parameter]}
        return {
            "type": "function",
            "function": {"name": self.name, "description": self.description, "parameters": schema},
        }


TOOLS = [
    Tool(
        "get_weather", "Get the weather of a city", "city",
        lambda r: r.choice(CAPITALS)[1],
        "What is the weather in {}?",
        lambda r, v: {
            "city": v,
            "temperature": r.randint(-20, 42),
            "sky": r.choice(["clear", "cloudy", "rainy", "foggy", "snowy"]),
        },
        lambda v, result: f"The sky over {v} is {result['sky']} and it is {result['temperature']} degrees.",
    ),
    Tool(
        "restart_server", "Restart a server", "server",
        lambda r: r.choice(HOSTS),
        "Please restart server {}.",
        lambda r, v: {"server": v, "seconds": r.randint(2, 90)},
        lambda v, result: f"Server {v} was restarted in {result['seconds']} seconds.",
    ),
    Tool(
        "get_user", "Look up a user", "name",
        lambda r: r.choice(NAMES),
        "Find the user {}.",
        lambda r, v: {"name": v, "age": r.randint(18, 90), "city": r.choice(CAPITALS)[1]},
        lambda v, result: f"{v} is {result['age']} years old and lives in {result['city']}.",
    ),
    Tool(
        "disk_usage", "Show disk usage of a server", "server",
        lambda r: r.choice(HOSTS),
        "How full is the disk of {}?",
        lambda r, v: {"server": v, "used_percent": r.randint(1, 100)},
        lambda v, result: f"The disk of {v} is {result['used_percent']} percent full.",
    ),
    Tool(
        "play_sound", "Play the sound of an animal", "animal",
        lambda r: r.choice(ANIMALS),
        "Play the sound of a {}.",
        lambda r, v: {"played": True, "seconds": r.randint(1, 9)},
        lambda v, result: f"The sound of the {v} was played for {result['seconds']} seconds.",
    ),
    Tool(
        "find_item", "Find an item", "item",
        lambda r: r.choice(ITEMS),
        "Where is my {}?",
        lambda r, v: {"item": v, "place": r.choice(PLACES)},
        lambda v, result: f"Your {v} is in the {result['place']}.",
    ),
]


def tool_system(definitions, system=None):
    """The system text that offers the tools, as the chat template writes it."""
    text = (system + "\n\n") if system else ""
    text += (
        "# Tools\n\nYou may call one or more functions to assist with the user query.\n\n"
        "You are provided with function signatures within <tools></tools> XML tags:\n<tools>"
    )
    for definition in definitions:
        text += "\n" + json.dumps(definition, ensure_ascii=False)
    return text + (
        "\n</tools>\n\nFor each function call, return a json object with function name and arguments within "
        "<tool_call></tool_call> XML tags:\n<tool_call>\n"
        '{"name": <function-name>, "arguments": <args-json-object>}\n</tool_call>'
    )


def tool_call(name, arguments):
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<tool_call>\n{call}\n</tool_call>"


def tool(r):
    """One single call, in the form of the other skills."""
    offered = r.sample(TOOLS, r.randint(1, 3))
    chosen = r.choice(offered)
    value = chosen.argument(r)
    system = tool_system([each.definition() for each in offered])
    return chosen.request.format(value), tool_call(chosen.name, {chosen.parameter: value}), system


SKILLS = {  # name: (skill, weight)
    "fact": (fact, 3),
    "zh": (chinese, 1.2),
    "arith": (arithmetic, 3),
    "spell": (spelling, 0.7),
    "lists": (lists, 3),
    "grounded": (grounded, 4),
    "json": (json_extraction, 2),
    "story": (story, 1.5),
    "tool": (tool, 1.0),
    "who": (identity, 0.3),
}
SYSTEM_TEXTS = [None, None, None, "You are a helpful assistant.", "You are Colibri Tiny."]


def tool_round(r):
    """(messages, tools): a question, one or two calls, their results and the answer; now and then no tool is needed."""
    offered = r.sample(TOOLS, r.randint(1, 3))
    definitions = [each.definition() for each in offered]
    system = r.choice([None, None, "You are a helpful assistant."])
    messages = [{"role": "system", "content": system}] if system else []
    if r.random() < 0.15:
        skill = SKILLS[r.choice(["fact", "arith", "who"])][0]
        question, answer = skill(r)[:2]
        messages += [{"role": "user", "content": question}, {"role": "assistant", "content": answer}]
        return messages, definitions
    chosen = r.choice(offered)
    values = [chosen.argument(r)]
    if r.random() < 0.25:
        second = chosen.argument(r)
        if second != values[0]:
            values.append(second)
    messages.append({"role": "user", "content": chosen.request.format(" and ".join(values))})
    calls = [
        {"type": "function", "function": {"name": chosen.name, "arguments": {chosen.parameter: value}}}
        for value in values
    ]
    messages.append({"role": "assistant", "content": "", "tool_calls": calls})
    results = [chosen.result(r, value) for value in values]
    messages += [{"role": "tool", "content": json.dumps(result)} for result in results]
    answer = " ".join(chosen.answer(value, result) for value, result in zip(values, results))
    messages.append({"role": "assistant", "content": answer})
    return messages, definitions


def render(messages, definitions=None):
    """What chat_template.jinja makes of a conversation."""
    system = messages[0]["content"] if messages[0]["role"] == "system" else None
    text = ""
    if definitions:
        text += f"<|im_start|>system\n{tool_system(definitions, system)}<|im_end|>\n"
    elif system is not None:
        text += f"<|im_start|>system\n{system}<|im_end|>\n"
    i = 0 if system is None else 1
    while i < len(messages):
        message = messages[i]
        if message["role"] == "tool":  # results that follow each other share one turn
            text += "<|im_start|>user"
            while i < len(messages) and messages[i]["role"] == "tool":
                text += "\n<tool_response>\n" + messages[i]["content"] + "\n</tool_response>"
                i += 1
            text += "<|im_end|>\n"
            continue
        content = message.get("content") or ""
        calls = "\n".join(
            tool_call(call["function"]["name"], call["function"]["arguments"])
            for call in message.get("tool_calls") or []
        )
        between = "\n" if content and calls else ""
        text += f"<|im_start|>{message['role']}\n{content}{between}{calls}<|im_end|>\n"
        i += 1
    return text


def chat(question, answer, system=None):
    """(prompt, completion) of one exchange."""
    text = f"<|im_start|>system\n{system}<|im_end|>\n" if system else ""
    return text + f"<|im_start|>user\n{question}<|im_end|>\n<|im_start|>assistant\n", answer + "<|im_end|>\n"


def sample(r, kind=None):
    """(kind, question, answer, system text) of one skill, drawn by weight where `kind` is None."""
    kind = kind or r.choices(list(SKILLS), [weight for _, weight in SKILLS.values()])[0]
    drawn = SKILLS[kind][0](r)
    system = drawn[2] if len(drawn) > 2 else r.choice(SYSTEM_TEXTS)
    return kind, drawn[0], drawn[1], system


def document(r):
    """One training document: a conversation of one or more turns, or one with tools."""
    if r.random() < 0.12:
        return render(*tool_round(r)) + "<|endoftext|>"
    _, question, answer, system = sample(r)
    text = "".join(chat(question, answer, system))
    while r.random() < 0.45:
        kind, question, answer, _ = sample(r)
        if kind != "tool":  # its tools would have to stand in the system text
            text += "".join(chat(question, answer))
    return text + "<|endoftext|>"


if __name__ == "__main__":
    generator = random.Random(0)
    for _ in range(12):
        print(document(generator), "\n====")
