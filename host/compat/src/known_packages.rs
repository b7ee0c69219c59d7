//! Known packages that are not in the package set: the package of each module, and the reason why it
//! is not in the set.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::packages::normalized;

/// The reason why a package is not in the package set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Why {
    /// It is pure Python, and could be added.
    Pure,
    /// It has native code.
    Native,
    /// It is the SDK of one service.
    Sdk,
}

/// A known package.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) distribution: &'static str,
    pub(super) why: Why,
    /// What to use instead, if the sandbox has something that does the same.
    pub(super) instead: Option<&'static str>,
}

static MODULES: LazyLock<HashMap<&str, Known>> = LazyLock::new(|| {
    let instead: HashMap<&str, &'static str> = INSTEAD.iter().copied().collect();
    let tables = [(PURE, Why::Pure), (SDK, Why::Sdk), (NATIVE, Why::Native)];
    let rows = tables.into_iter().flat_map(|(table, why)| {
        table.iter().map(move |(module, distribution)| (*module, *distribution, why))
    });
    rows.map(|(module, name, why)| {
        (module, Known { distribution: name, why, instead: instead.get(name).copied() })
    })
    .collect()
});

static DISTRIBUTIONS: LazyLock<HashMap<String, Known>> = LazyLock::new(|| {
    MODULES.values().map(|known| (normalized(known.distribution), *known)).collect()
});

/// Looks up a dotted module name, then its parents.
pub(super) fn find(module: &str) -> Option<Known> {
    let mut name = module;
    loop {
        if let Some(known) = MODULES.get(name) {
            return Some(*known);
        }
        name = name.rsplit_once('.')?.0;
    }
}

/// Looks up a distribution by its [`normalized`] name.
pub(super) fn distribution(name: &str) -> Option<Known> {
    DISTRIBUTIONS.get(name).copied()
}

#[rustfmt::skip]
const NATIVE: &[(&str, &str)] = &[
    ("numpy", "numpy"), ("pandas", "pandas"), ("PIL", "Pillow"), ("lxml", "lxml"), ("matplotlib", "matplotlib"), ("torch", "torch"),
    ("torchvision", "torchvision"), ("torchaudio", "torchaudio"), ("scipy", "scipy"), ("sklearn", "scikit-learn"), ("skimage", "scikit-image"),
    ("cv2", "opencv-python"), ("tensorflow", "tensorflow"), ("jax", "jax"), ("transformers", "transformers"), ("fitz", "PyMuPDF"),
    ("pymupdf", "PyMuPDF"), ("aiohttp", "aiohttp"), ("cryptography", "cryptography"), ("nacl", "PyNaCl"),
    ("bcrypt", "bcrypt"), ("argon2", "argon2-cffi"), ("orjson", "orjson"), ("ujson", "ujson"), ("msgpack", "msgpack"), ("regex", "regex"),
    ("polars", "polars"), ("pyarrow", "pyarrow"), ("duckdb", "duckdb"), ("seaborn", "seaborn"), ("kaleido", "kaleido"),
    ("statsmodels", "statsmodels"), ("numba", "numba"), ("xgboost", "xgboost"), ("lightgbm", "lightgbm"), ("shapely", "shapely"),
    ("geopandas", "geopandas"), ("rasterio", "rasterio"), ("pyproj", "pyproj"), ("psycopg2", "psycopg2"), ("asyncpg", "asyncpg"),
    ("MySQLdb", "mysqlclient"), ("pyodbc", "pyodbc"), ("zmq", "pyzmq"), ("grpc", "grpcio"), ("gevent", "gevent"), ("greenlet", "greenlet"),
    ("pydantic", "pydantic"), ("pydantic_core", "pydantic-core"), ("pydantic_settings", "pydantic-settings"), ("rpds", "rpds-py"),
    ("spacy", "spacy"), ("sentence_transformers", "sentence-transformers"), ("faiss", "faiss-cpu"), ("tiktoken", "tiktoken"),
    ("tokenizers", "tokenizers"), ("onnxruntime", "onnxruntime"), ("whisper", "openai-whisper"), ("faster_whisper", "faster-whisper"),
    ("soundfile", "soundfile"), ("librosa", "librosa"), ("pyaudio", "PyAudio"), ("sounddevice", "sounddevice"), ("mlx", "mlx"),
    ("playwright", "playwright"), ("pypdfium2", "pypdfium2"), ("pdfplumber", "pdfplumber"),
    ("pikepdf", "pikepdf"), ("cairosvg", "CairoSVG"), ("cairo", "pycairo"), ("weasyprint", "weasyprint"), ("reportlab", "reportlab"),
    ("pptx", "python-pptx"), ("docx", "python-docx"), ("imageio", "imageio"), ("imageio_ffmpeg", "imageio-ffmpeg"), ("moviepy", "moviepy"),
    ("pytesseract", "pytesseract"), ("pdf2image", "pdf2image"), ("easyocr", "easyocr"), ("rapidfuzz", "rapidfuzz"), ("Levenshtein", "Levenshtein"),
    ("curl_cffi", "curl_cffi"), ("brotli", "Brotli"), ("zstandard", "zstandard"), ("lz4", "lz4"), ("snappy", "python-snappy"), ("xxhash", "xxhash"),
    ("uvloop", "uvloop"), ("httptools", "httptools"), ("watchfiles", "watchfiles"), ("yarl", "yarl"), ("multidict", "multidict"),
    ("tree_sitter", "tree-sitter"), ("rdkit", "rdkit"), ("Bio", "biopython"), ("pysam", "pysam"), ("scanpy", "scanpy"), ("anndata", "anndata"),
    ("h5py", "h5py"), ("netCDF4", "netCDF4"), ("xarray", "xarray"), ("zarr", "zarr"), ("serial", "pyserial"), ("usb", "pyusb"),
    ("pyautogui", "PyAutoGUI"), ("mss", "mss"), ("Quartz", "pyobjc-framework-Quartz"), ("AppKit", "pyobjc-framework-Cocoa"),
    ("win32com", "pywin32"), ("win32api", "pywin32"), ("nodriver", "nodriver"), ("cffi", "cffi"), ("Crypto", "pycryptodome"),
    ("pyzbar", "pyzbar"), ("chromadb", "chromadb"), ("lancedb", "lancedb"), ("llama_cpp", "llama-cpp-python"), ("diffusers", "diffusers"),
    ("accelerate", "accelerate"), ("datasets", "datasets"), ("trl", "trl"), ("peft", "peft"), ("unsloth", "unsloth"), ("bitsandbytes", "bitsandbytes"),
    ("fastapi", "fastapi"), ("jieba_fast", "jieba_fast"), ("akshare", "akshare"), ("yfinance", "yfinance"), ("vtk", "vtk"), ("trimesh", "trimesh"),
];

#[rustfmt::skip]
const SDK: &[(&str, &str)] = &[
    ("openai", "openai"), ("anthropic", "anthropic"), ("google.generativeai", "google-generativeai"), ("google.genai", "google-genai"),
    ("google.cloud.storage", "google-cloud-storage"), ("google.cloud.bigquery", "google-cloud-bigquery"), ("google.cloud.firestore", "google-cloud-firestore"),
    ("google.cloud", "google-cloud-core"), ("google.auth", "google-auth"), ("google.oauth2", "google-auth"), ("google_auth_oauthlib", "google-auth-oauthlib"),
    ("googleapiclient", "google-api-python-client"), ("google.ads", "google-ads"), ("google.analytics", "google-analytics-data"), ("firebase_admin", "firebase-admin"),
    ("google.protobuf", "protobuf"), ("google", "google-api-core"), ("boto3", "boto3"), ("botocore", "botocore"), ("azure.identity", "azure-identity"), ("azure.storage.blob", "azure-storage-blob"),
    ("azure", "azure-core"), ("msal", "msal"), ("stripe", "stripe"), ("slack_sdk", "slack_sdk"), ("slack_bolt", "slack_bolt"), ("discord", "discord.py"), ("telegram", "python-telegram-bot"),
    ("telethon", "Telethon"), ("tweepy", "tweepy"), ("praw", "praw"), ("github", "PyGithub"), ("gitlab", "python-gitlab"), ("jira", "jira"),
    ("atlassian", "atlassian-python-api"), ("notion_client", "notion-client"), ("linear_sdk", "linear-sdk"), ("twilio", "twilio"),
    ("sendgrid", "sendgrid"), ("elevenlabs", "elevenlabs"), ("replicate", "replicate"), ("fal_client", "fal-client"), ("groq", "groq"),
    ("mistralai", "mistralai"), ("cohere", "cohere"), ("ollama", "ollama"), ("litellm", "litellm"), ("langchain", "langchain"), ("langgraph", "langgraph"),
    ("langsmith", "langsmith"), ("llama_index", "llama-index"), ("huggingface_hub", "huggingface-hub"), ("wandb", "wandb"), ("mlflow", "mlflow"),
    ("supabase", "supabase"), ("pinecone", "pinecone"), ("qdrant_client", "qdrant-client"), ("weaviate", "weaviate-client"), ("redis", "redis"),
    ("pymongo", "pymongo"), ("neo4j", "neo4j"), ("elasticsearch", "elasticsearch"), ("snowflake", "snowflake-connector-python"), ("kubernetes", "kubernetes"),
    ("docker", "docker"), ("shopify", "ShopifyAPI"), ("hubspot", "hubspot-api-client"), ("simple_salesforce", "simple-salesforce"), ("sentry_sdk", "sentry-sdk"),
    ("posthog", "posthog"), ("mcp", "mcp"), ("fastmcp", "fastmcp"), ("claude_agent_sdk", "claude-agent-sdk"), ("tavily", "tavily-python"), ("exa_py", "exa-py"),
    ("firecrawl", "firecrawl-py"), ("apify_client", "apify-client"), ("spotipy", "spotipy"), ("alpaca", "alpaca-py"), ("ccxt", "ccxt"), ("web3", "web3"),
    ("modal", "modal"), ("runpod", "runpod"), ("e2b", "e2b"), ("volcenginesdkarkruntime", "volcengine-python-sdk"), ("dashscope", "dashscope"),
    ("lark_oapi", "lark-oapi"), ("composio", "composio"), ("paramiko", "paramiko"), ("fabric", "fabric"), ("psycopg", "psycopg"), ("pymysql", "PyMySQL"),
];

#[rustfmt::skip]
const PURE: &[(&str, &str)] = &[
    ("requests", "requests"), ("httpx", "httpx"), ("urllib3", "urllib3"), ("yaml", "PyYAML"), ("dotenv", "python-dotenv"), ("bs4", "beautifulsoup4"),
    ("defusedxml", "defusedxml"), ("dateutil", "python-dateutil"), ("pytz", "pytz"), ("typer", "typer"), ("click", "click"), ("rich", "rich"),
    ("tqdm", "tqdm"), ("feedparser", "feedparser"), ("pypdf", "pypdf"), ("openpyxl", "openpyxl"), ("jinja2", "Jinja2"), ("markdown", "Markdown"),
    ("tabulate", "tabulate"), ("networkx", "networkx"), ("attr", "attrs"), ("attrs", "attrs"), ("docopt", "docopt"), ("toml", "toml"),
    ("xmltodict", "xmltodict"), ("jsonschema", "jsonschema"), ("markdown_it", "markdown-it-py"), ("pygments", "Pygments"), ("colorama", "colorama"),
    ("packaging", "packaging"), ("six", "six"), ("certifi", "certifi"), ("idna", "idna"), ("chardet", "chardet"), ("termcolor", "termcolor"),
    ("PyPDF2", "PyPDF2"), ("pdfminer", "pdfminer.six"), ("xlsxwriter", "XlsxWriter"), ("xlrd", "xlrd"), ("xlwt", "xlwt"), ("html2text", "html2text"),
    ("markdownify", "markdownify"), ("html5lib", "html5lib"), ("cssselect", "cssselect"), ("soupsieve", "soupsieve"), ("tomli", "tomli"),
    ("tomli_w", "tomli-w"), ("tomlkit", "tomlkit"), ("ruamel.yaml", "ruamel.yaml"), ("ruamel", "ruamel.yaml"), ("frontmatter", "python-frontmatter"),
    ("mistune", "mistune"), ("commonmark", "commonmark"), ("simplejson", "simplejson"), ("json5", "json5"), ("jsonpath_ng", "jsonpath-ng"), ("jmespath", "jmespath"),
    ("pytest", "pytest"), ("hypothesis", "hypothesis"), ("mock", "mock"), ("black", "black"), ("isort", "isort"), ("flake8", "flake8"), ("pylint", "pylint"),
    ("mypy", "mypy"), ("radon", "radon"), ("bandit", "bandit"), ("coverage", "coverage"), ("sympy", "sympy"), ("mpmath", "mpmath"), ("humanize", "humanize"),
    ("arrow", "arrow"), ("pendulum", "pendulum"), ("tzlocal", "tzlocal"), ("croniter", "croniter"), ("icalendar", "icalendar"), ("ics", "ics"), ("holidays", "holidays"),
    ("flask", "Flask"), ("django", "Django"), ("starlette", "starlette"), ("uvicorn", "uvicorn"), ("websockets", "websockets"), ("websocket", "websocket-client"),
    ("tornado", "tornado"), ("selenium", "selenium"), ("sqlalchemy", "SQLAlchemy"), ("sqlite_utils", "sqlite-utils"), ("peewee", "peewee"), ("alembic", "alembic"),
    ("plotly", "plotly"), ("altair", "altair"), ("graphviz", "graphviz"), ("pydot", "pydot"), ("qrcode", "qrcode"), ("svgwrite", "svgwrite"),
    ("youtube_transcript_api", "youtube-transcript-api"), ("yt_dlp", "yt-dlp"), ("trafilatura", "trafilatura"), ("readability", "readability-lxml"),
    ("newspaper", "newspaper3k"), ("wikipedia", "Wikipedia-API"), ("arxiv", "arxiv"), ("scholarly", "scholarly"), ("bibtexparser", "bibtexparser"), ("habanero", "habanero"),
    ("nltk", "nltk"), ("textblob", "textblob"), ("langdetect", "langdetect"), ("emoji", "emoji"), ("unidecode", "Unidecode"), ("slugify", "python-slugify"),
    ("fuzzywuzzy", "fuzzywuzzy"), ("thefuzz", "thefuzz"), ("jieba", "jieba"), ("pypinyin", "pypinyin"), ("opencc", "OpenCC"), ("tenacity", "tenacity"),
    ("cachetools", "cachetools"), ("diskcache", "diskcache"), ("filelock", "filelock"), ("platformdirs", "platformdirs"), ("appdirs", "appdirs"), ("watchdog", "watchdog"),
    ("loguru", "loguru"), ("structlog", "structlog"), ("prettytable", "prettytable"), ("texttable", "texttable"), ("prompt_toolkit", "prompt_toolkit"), ("questionary", "questionary"),
    ("inquirer", "inquirer"), ("fire", "fire"), ("textual", "textual"), ("typing_extensions", "typing_extensions"), ("marshmallow", "marshmallow"), ("cattrs", "cattrs"),
    ("dacite", "dacite"), ("voluptuous", "voluptuous"), ("cerberus", "Cerberus"), ("anyio", "anyio"), ("trio", "trio"), ("aiofiles", "aiofiles"), ("nest_asyncio", "nest-asyncio"),
    ("requests_oauthlib", "requests-oauthlib"), ("oauthlib", "oauthlib"), ("jwt", "PyJWT"), ("jose", "python-jose"), ("keyring", "keyring"), ("pexpect", "pexpect"),
    ("sh", "sh"), ("git", "GitPython"), ("pkg_resources", "setuptools"), ("setuptools", "setuptools"), ("pip", "pip"), ("wheel", "wheel"), ("nbformat", "nbformat"),
    ("nbconvert", "nbconvert"), ("IPython", "ipython"), ("jupyter_client", "jupyter-client"), ("ebooklib", "EbookLib"), ("odf", "odfpy"), ("pyperclip", "pyperclip"),
    ("pathspec", "pathspec"), ("pydub", "pydub"), ("mutagen", "mutagen"), ("gtts", "gTTS"), ("edge_tts", "edge-tts"), ("speech_recognition", "SpeechRecognition"), ("deepdiff", "deepdiff"),
    ("lark", "lark"), ("pyparsing", "pyparsing"), ("ply", "ply"), ("libcst", "libcst"), ("astroid", "astroid"), ("more_itertools", "more-itertools"), ("toolz", "toolz"),
    ("sortedcontainers", "sortedcontainers"), ("faker", "Faker"), ("responses", "responses"), ("vcr", "vcrpy"), ("freezegun", "freezegun"), ("validators", "validators"),
    ("phonenumbers", "phonenumbers"), ("pycountry", "pycountry"), ("geopy", "geopy"), ("folium", "folium"), ("pulp", "PuLP"), ("simpy", "simpy"), ("statsd", "statsd"),
];

/// What to use instead of a package.
#[rustfmt::skip]
const INSTEAD: &[(&str, &str)] = &[
    ("numpy", "lists with the modules math and statistics"), ("pandas", "the modules csv and sqlite3, or openpyxl for workbooks"), ("lxml", "xml.etree.ElementTree, or beautifulsoup4 with html.parser"),
    ("matplotlib", "SVG written as text"), ("seaborn", "SVG written as text"), ("plotly", "SVG written as text"), ("PyMuPDF", "pypdf"), ("pdfplumber", "pypdf"), ("pypdfium2", "pypdf"), ("pikepdf", "pypdf"),
    ("PyPDF2", "pypdf"), ("pdfminer.six", "pypdf"), ("aiohttp", "httpx"), ("curl_cffi", "httpx"), ("orjson", "the module json"), ("ujson", "the module json"), ("simplejson", "the module json"), ("pydantic", "dataclasses, attrs or jsonschema"),
    ("python-docx", "zipfile and xml.etree.ElementTree"), ("python-pptx", "zipfile and xml.etree.ElementTree"), ("XlsxWriter", "openpyxl"), ("xlrd", "openpyxl"), ("regex", "the module re"), ("rapidfuzz", "the module difflib"),
    ("Levenshtein", "the module difflib"), ("fuzzywuzzy", "the module difflib"), ("thefuzz", "the module difflib"), ("duckdb", "the module sqlite3"), ("polars", "the modules csv and sqlite3"), ("tomli", "the module tomllib"),
    ("html5lib", "html.parser"), ("readability-lxml", "beautifulsoup4"), ("GitPython", "the command git"), ("setuptools", "importlib.metadata and importlib.resources"),
    ("chardet", "charset-normalizer"), ("termcolor", "rich or colorama"), ("xxhash", "the module hashlib"), ("lz4", "the module gzip"), ("zstandard", "the module compression.zstd"), ("Brotli", "the module gzip"), ("python-frontmatter", "PyYAML"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dotted_modules_take_precedence_over_their_parents() {
        assert_eq!(
            find("google.cloud.storage").map(|k| k.distribution),
            Some("google-cloud-storage")
        );
        assert_eq!(
            find("google.cloud.other.deep").map(|k| k.distribution),
            Some("google-cloud-core")
        );
        assert_eq!(
            find("PIL.Image").map(|k| (k.distribution, k.why)),
            Some(("Pillow", Why::Native))
        );
        assert_eq!(find("nothing.known"), None);
        assert_eq!(distribution("scikit-learn").map(|k| k.why), Some(Why::Native));
    }

    #[test]
    fn modules_have_one_package_and_packages_one_kind() {
        assert_eq!(
            MODULES.len(),
            [NATIVE, SDK, PURE].iter().map(|table| table.len()).sum::<usize>()
        );
        for known in MODULES.values() {
            assert_eq!(
                distribution(&normalized(known.distribution)).map(|k| k.why),
                Some(known.why),
                "{}",
                known.distribution
            );
        }
    }

    #[test]
    fn alternatives_are_for_known_packages() {
        for (distribution, _) in INSTEAD {
            assert!(self::distribution(&normalized(distribution)).is_some(), "{distribution}");
        }
    }
}
