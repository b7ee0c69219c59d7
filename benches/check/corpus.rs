//! Generates skills that resemble public ones: in the number and the size of their files, and in
//! the modules and programs that they use.
//!
//! According to a study of public skills, a skill with scripts has 5 files and 29 KB at the median,
//! 139 KB at the 90th percentile, and at most 7.5 MB; a script has about 250 lines. A quarter of
//! public skills have scripts; here, all of them do. The skills are the same in each run.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use skillhost_bench::Random;

/// Writes a number of skills, and returns their total size in bytes.
pub(crate) fn write(folder: &Path, skills: usize) -> u64 {
    let mut random = Random::new(7);
    (0..skills).map(|number| skill(folder, number, &mut random)).sum()
}

fn skill(folder: &Path, number: usize, random: &mut Random) -> u64 {
    let name = format!("skill-{number:04}");
    let root = folder.join(&name);
    fs::create_dir_all(root.join("scripts")).unwrap();
    let mut bytes = 0;
    let mut put = |path: &str, text: String| {
        bytes += text.len() as u64;
        fs::write(root.join(path), text).unwrap();
    };
    // The median and the 90th percentile are those of the study.
    let size = [1, 2, 2, 3, 3, 4, 5, 6, 8, 16][random.below(10)];
    put("SKILL.md", skill_md(&name, size, random));
    put("scripts/main.py", python(size, true, random));
    put("scripts/helpers.py", python(1, false, random));
    for extra in 0..size / 3 {
        put(&format!("scripts/step_{extra}.py"), python(3, true, random));
    }
    put("scripts/run.sh", shell(1 + size / 3, random));
    let kind = |part: &str| {
        format!("# {part}\n\nWhat it means, at some length, with an example or two for those who need it.\n\n").repeat(30 * size)
    };
    put("reference.md", kind("Reference"));
    if number.is_multiple_of(200) {
        put("data.json", "{\"a\": [1, 2, 3]},\n".repeat(400_000));
    }
    bytes
}

fn skill_md(name: &str, size: usize, random: &mut Random) -> String {
    let tools = [
        "",
        "allowed-tools: Read Bash(python3:*)\n",
        "allowed-tools: Bash, Read, Write\n",
        "allowed-tools: Bash(python3:*) Bash(git:*)\n",
    ];
    let tools = tools[random.below(tools.len())];
    let mut text = format!(
        "---\nname: {name}\ndescription: One of many, for timing. Use when timing how long many take.\n{tools}---\n\n# {name}\n"
    );
    for step in 0..4 + 2 * size {
        writeln!(
            text,
            "\n## Step {step}\n\nDo what `scripts/main.py` says, and read the result with care before going on to the next one."
        )
        .unwrap();
        if step % 3 == 0 {
            let commands = [
                "python3 scripts/main.py --input data.json | jq -r '.items[] | .name' > out.json",
                "pip install requests pyyaml\npython scripts/main.py",
                "curl -s -H \"Authorization: Bearer $TOKEN\" https://api.example.com/v1/items | jq .",
                "git log --oneline -3\nnpm install\nnode index.js",
                "for f in *.csv; do\n  wc -l \"$f\"\ndone | sort -n",
            ];
            write!(text, "\n```bash\n{}\n```\n", commands[random.below(commands.len())]).unwrap();
        }
    }
    text
}

fn python(size: usize, main: bool, random: &mut Random) -> String {
    let modules = [
        "requests", "httpx", "yaml", "dotenv", "bs4", "numpy", "pandas", "PIL", "openai",
        "mystery", "csv", "sqlite3",
    ];
    let mut text = String::from(
        "#!/usr/bin/env python3\n\"\"\"Does one thing.\n\nUsage:\n    main.py FILE [--limit N]\n\"\"\"\nimport argparse\nimport json\n",
    );
    text += "import os\nimport re\nimport subprocess\nimport sys\nfrom pathlib import Path\nfrom typing import Any, Optional\n\n";
    let module = modules[random.below(modules.len())];
    match random.below(2) {
        0 => writeln!(text, "import {module}\n").unwrap(),
        _ => writeln!(
            text,
            "try:\n    import {module}\nexcept ImportError:\n    print(\"missing\")\n"
        )
        .unwrap(),
    }
    if main {
        text += "from helpers import load_0\n\n";
    }
    let functions = [
        "def load_@(path: Path, *, limit: int = 10) -> dict[str, Any]:\n    \"\"\"Reads a file, as in `import this`.\"\"\"\n    with open(path, encoding=\"utf-8\") as f:\n        \
         data = json.load(f)\n    if not isinstance(data, dict):\n        raise ValueError(f\"{path}: expected an object, found {type(data).__name__}\")\n    \
         return {key: value for key, value in list(data.items())[:limit] if value is not None}\n",
        "def fetch_@(name: str, token: Optional[str] = None):\n    url = f\"https://api.example.com/v1/items/{name}?format=json\"\n    headers = {\"Authorization\": f\"Bearer {token or os.environ['TOKEN']}\"}\n    \
         response = requests.get(url, headers=headers, timeout=30)\n    response.raise_for_status()\n    return response.json()[\"items\"]\n",
        "def run_@(args: list[str]) -> str:\n    result = subprocess.run([\"git\", \"log\", \"--format=%H %s\", *args], capture_output=True, text=True, check=False)\n    \
         if result.returncode != 0:\n        print(f\"error: {result.stderr.strip()}\", file=sys.stderr)\n        sys.exit(2)\n    return result.stdout\n",
        "class Report_@:\n    PATTERN = re.compile(r\"^(?P<key>[A-Z][\\w-]*):\\s*(.*?)\\s*$\", re.M)\n\n    def __init__(self, rows):\n        self.rows = rows\n\n    def render(self) -> str:\n        \
         # One line for each, with what it is worth.\n        lines = [f\"{row['name']:<20} {row.get('value', 0):>8.2f}\" for row in self.rows]\n        return \"\\n\".join(lines) + \"\\n\"\n",
    ];
    for number in 0..size * 8 {
        text += "\n\n";
        text += &functions[if number == 0 { 0 } else { random.below(functions.len()) }]
            .replace('@', &number.to_string());
    }
    if main {
        text += "\n\ndef main() -> int:\n    parser = argparse.ArgumentParser(description=__doc__)\n    parser.add_argument(\"file\", type=Path)\n    \
                 args = parser.parse_args()\n    print(json.dumps(load_0(args.file), indent=2, ensure_ascii=False))\n    return 0\n\n\n\
                 if __name__ == \"__main__\":\n    sys.exit(main())\n";
    }
    text
}

fn shell(size: usize, random: &mut Random) -> String {
    let parts = [
        "for file in \"$@\"; do\n  if grep -q \"$PATTERN\" \"$file\"; then\n    sed -e 's/a/b/' \"$file\" | sort -u > \"$OUT/$(basename \"$file\")\"\n  fi\ndone\n",
        "usage() {\n  cat <<EOF\nUsage: $(basename \"$0\") [-h] FILE\n\n  -h  this text\nEOF\n}\n",
        "while read -r line; do\n  case \"$line\" in\n    \\#*) continue ;;\n    *=*) export \"${line%%=*}\"=\"${line#*=}\" ;;\n  esac\ndone < \"${CONFIG:-config.env}\"\n",
        "result=$(curl -s -H \"Authorization: Bearer ${TOKEN:?}\" \"https://api.example.com/v1/${name}\" | jq -r '.items[] | \"\\(.id)\\t\\(.name)\"')\n[ -n \"$result\" ] || exit 1\n",
        "python3 \"$(dirname \"${BASH_SOURCE[0]}\")/main.py\" \"$1\" --limit $((COUNT * 2)) | awk -F'\\t' '{ total += $2 } END { print total }'\n",
    ];
    let mut text = String::from(
        "#!/usr/bin/env bash\nset -euo pipefail\n\nSCRIPT_DIR=\"$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\"\nOUT=\"${OUT:-.}\"\n",
    );
    for _ in 0..size * 8 {
        text += "\n";
        text += parts[random.below(parts.len())];
    }
    text
}
