# What the lots' commands find, made by the user they run as: work, out, home.
set -e
umask 022
mkdir work out home out/d out/e home/.ssh
cd work
git init -q -b main . ; git config user.name T; git config user.email t@example.com
echo one > a.txt; printf '#!/bin/sh\necho hi\n' > script.sh; chmod 755 script.sh; printf '#!/bin/sh\necho no\n' > noexec.sh
mkdir src dir; printf '#include <stdio.h>\nint main(void){puts("hi");return 0;}\n' > src/main.c
echo x > dir/x.txt; echo y > dir/y.txt; echo 'X = 3' > mod.py
printf 'public class Main { public static void main(String[] a) { System.out.println(1); } }\n' > Main.java
mkdir gomod; printf 'module ex\ngo 1.19\n' > gomod/go.mod; printf 'package main\nfunc main(){println("x")}\n' > gomod/main.go
echo 'Permission denied (publickey)' > denied.log
printf -- '--- a/a.txt\n+++ b/a.txt\n@@ -1 +1 @@\n-one\n+two\n' > p.diff
mkdir t; echo 1 > t/one; echo 2 > t/two; tar cf arch.tar t; zip -q -r arc.zip t; rm -r t
ln -s ../out lnk
git add a.txt script.sh src dir mod.py; git commit -q -m first
echo bee > b.txt; echo ro > ro.txt; chmod 444 ro.txt; mkdir locked; chmod 555 locked
cd ..
git clone -q --bare work out/repo.git
echo one > out/f.txt; echo in > out/d/in.txt; printf '#!/bin/sh\necho tool\n' > out/tool; chmod 755 out/tool
python3 -c "import sqlite3; c=sqlite3.connect('out/db.sqlite'); c.execute('create table t(a)'); c.commit()"
echo KEY > home/.ssh/id_rsa
