use tile_kernels::gemm::{Choice, copied::Operands};
fn main() {
    for line in std::io::read_to_string(std::io::stdin()).unwrap().lines() {
        let w: Vec<&str> = line.split_whitespace().collect();
        let v: Vec<i64> = w[2..].iter().map(|x| x.parse().unwrap()).collect();
        let op = match w[0] { "f32" => Operands::Full, "tf32" => Operands::Tf32 { fetched: v[4] != 0 }, _ => if v[4] != 0 { Operands::Fetched } else { Operands::Copied { width: v[3] } } };
        let st = [w[1].as_bytes()[0] == b't', w[1].as_bytes()[1] == b't'];
        let all = Choice::ranked(op, [v[0], v[1], v[2]], st);
        println!("{}", all.iter().map(|(c, us)| format!("{us:.3} {c}")).collect::<Vec<_>>().join(" | "));
    }
}
