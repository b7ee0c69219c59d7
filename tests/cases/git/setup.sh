# Makes repositories in the working directory, the same ones on each machine. Run by the machine's bash and git.
set -e
export GIT_AUTHOR_NAME='Ada L' GIT_AUTHOR_EMAIL=ada@example.org GIT_COMMITTER_NAME=Bob GIT_COMMITTER_EMAIL=bob@example.org
at() { export GIT_AUTHOR_DATE="$1 +0100" GIT_COMMITTER_DATE="$1 +0100"; }

# Packs and loose objects, a merge, renames, tags, a remote; a work tree with changes of each kind.
mkdir main
cd main
git init -q -b main
git config user.name 'Ada L'; git config core.abbrev auto
seq 1 40 > numbers.txt; mkdir -p src/deep docs; printf 'int main() {\n  return 0;\n}\n\nint helper(int a) {\n  int b = a;\n  b += 1;\n  b += 2;\n  b += 3;\n  b += 4;\n  return b;\n}\n' > src/main.c
echo '# Title' > README.md; printf 'a\0b' > bin.dat; echo deep > src/deep/file.txt; echo 'ü' > 'docs/ü.txt'; echo x > 'docs/with space.txt'; printf 'no newline' > end.txt
printf '*.log\nbuild/\n!keep.log\n/only-root\n' > .gitignore
git add .; at 2024-01-02T03:04:05; git commit -qm 'First commit

With a body of
two lines.'
sed -i 's/^20$/twenty/; s/^3$/three/' numbers.txt; at 2024-01-03T03:04:05; git commit -qam 'Change numbers'
git tag -a v1.0 -m 'Release one' ; git tag light
git checkout -q -b feature; sed -i 's/b += 3/b += 33/' src/main.c; echo new > src/new.txt; git add .; at 2024-01-04T03:04:05; git commit -qm 'feat: add a helper'
git checkout -q main; git mv docs/"with space.txt" docs/moved.txt; git rm -q end.txt; at 2024-01-05T03:04:05; git commit -qm 'Move and remove'
at 2024-01-06T03:04:05; git merge -q --no-ff feature -m 'Merge feature'
git tag -a v1.10 -m 'Ten'; git tag v1.9
git gc -q
seq 1 5 >> numbers.txt; printf 'c\0d\0e' > bin.dat; at 2024-01-07T03:04:05; git commit -qam 'fix: more numbers (#12)'
git remote add origin https://example.org/x/y.git; git remote add up git@example.org:z.git
git update-ref refs/remotes/origin/main HEAD~2; git symbolic-ref refs/remotes/origin/HEAD refs/remotes/origin/main; git config branch.main.remote origin; git config branch.main.merge refs/heads/main
# the work tree
echo changed >> README.md; echo staged > staged.txt; git add staged.txt; echo more >> staged.txt; rm src/deep/file.txt; git mv src/new.txt src/newer.txt
mkdir -p other/sub build; echo u > other/sub/u.txt; echo l > x.log; echo k > keep.log; echo b > build/b; echo i > 'new file.txt'; touch only-root; mkdir -p docs/only-root; echo s > docs/only-root/s
cd ..

# Nothing yet; only loose objects, and HEAD on a commit; a conflict; nothing to say.
git init -q -b trunk fresh
echo a > fresh/a; git -C fresh add a; echo b > fresh/b
git init -q -b main detached
(cd detached; for n in 1 2 3; do echo $n > f; git add f; at 2024-02-0${n}T00:00:00; git commit -qm "commit $n"; done; git checkout -q HEAD~1)
git init -q -b main conflict
(cd conflict; echo 1 > f; git add f; at 2024-03-01T00:00:00; git commit -qm base; git checkout -q -b side; echo 2 > f; git commit -qam side; git checkout -q main; echo 3 > f; git commit -qam main; git merge -q side > /dev/null 2>&1 || true)
git clone -q --bare detached bare.git 2> /dev/null
git init -q -b main clean
(cd clean; echo 1 > f; git add f; at 2024-04-01T00:00:00; git commit -qm one)
