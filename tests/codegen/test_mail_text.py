"""Mailboxes of the blocks of a cluster, as text."""

from __future__ import annotations

from thunder_fuser.codegen.mail_text import Mail


def test_a_mailbox_for_each_phase_expects_its_bytes_before_any_thread_arrives() -> None:
    mail = Mail((16, 32), walks=False)
    lines = [line.strip() for line in mail.opened()]
    assert lines[0] == "__shared__ tf::Mailbox mail[2];"
    opened = [lines.index(f"tf::open_mail(mail[{n}]);") for n in (0, 1)]
    expected = lines.index("tf::expect_mail(mail[0], 16);")
    assert lines.index("tf::expect_mail(mail[1], 32);") == expected + 1
    assert max(opened) < expected < lines.index("tf::cluster_arrive();") == len(lines) - 1


def test_mail_of_one_turn_is_waited_for_once() -> None:
    mail = Mail((16, 32), walks=False)
    assert (mail.sets, mail.which, mail.box(1)) == ("", "", "mail[1]")
    assert mail.awaited(1) == ["tf::await_mail(mail[1]);"]


def test_two_mailboxes_serve_by_turns() -> None:
    mail = Mail((16,), walks=True)
    text = "\n".join(mail.opened())
    assert "mail[2][1]" in text
    assert "expect_mail(mail[0][0], 16)" in text
    assert "expect_mail(mail[1][0], 16)" in text
    waits, more = mail.awaited(0)
    assert waits == "tf::await_mail(mail[turn % 2][0], turn / 2 % 2);"
    assert more == "if (threadIdx.x == 0) tf::expect_mail(mail[turn % 2][0], 16);"
