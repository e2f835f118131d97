// Copyright (c) 2026, the Redstart authors. GPL-2.0-only.
// mysql2: see test_clients.py for what it must print.
const mysql = require('mysql2/promise');

async function main() {
  const connection = await mysql.createConnection(
      {host: '127.0.0.1', port: Number(process.argv[2]), user: 'app', password: 'p', database: 't'});
  await connection.beginTransaction();
  for (let number = 0; number < 100; ++number) {
    await connection.execute('INSERT INTO js (id, s) VALUES (?, ?)', [number, `ü${number}`]);
  }
  await connection.commit();
  await connection.beginTransaction();
  await connection.execute('DELETE FROM js WHERE id >= ?', [50]);
  await connection.rollback();
  const [few] = await connection.execute('SELECT COUNT(*) AS n, MAX(s) AS s FROM js WHERE id < ?', [10]);
  console.log(few[0].n, few[0].s);
  const [rows] = await connection.query('SELECT id, s FROM big');
  console.log(rows.reduce((sum, row) => sum + row.id, 0), rows.reduce((sum, row) => sum + row.s.length, 0));
  const [all] = await connection.query('SELECT COUNT(*) AS n FROM js');
  console.log(all[0].n);
  await connection.end();
}

main().catch((problem) => {
  console.error(problem);
  process.exit(1);
});
